package configs

// LogLevels are the levels of loggers in Kafka's words, the most severe first.
func LogLevels() []string { return []string{"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"} }

// IsLogLevel tells whether a text is one of LogLevels.
func IsLogLevel(text string) bool { return oneOf(LogLevels()).Check(text) == nil }
