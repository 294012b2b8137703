package python

// Interpreter is a Python that has the client libraries.
func Interpreter() (string, error) { return interpreter() }
