package broker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// rootLogger is the logger that the others take their level from.
const rootLogger = "root"

// loggers are the named loggers of one broker, all of which write through the logger that
// it was given. Their levels can be changed while it runs, with the resource BROKER_LOGGER
// of IncrementalAlterConfigs (KIP-412).
type loggers struct {
	base slog.Handler

	mu    sync.Mutex
	named map[string]*leveled // "root" among them
}

// leveled is one logger's level: its own, or the root's.
type leveled struct {
	effective atomic.Int64 // slog.Level
	own       bool
}

// newLoggers begins with the level of base, which from then on decides nothing.
func newLoggers(base *slog.Logger) *loggers {
	l := &loggers{base: base.Handler(), named: map[string]*leveled{}}
	root := &leveled{own: true}
	root.effective.Store(int64(levelOf(l.base)))
	l.named[rootLogger] = root
	return l
}

// levelOff is above every level: nothing is logged.
const levelOff = slog.Level(1 << 10)

// levelOf is the least level that a handler takes.
func levelOf(h slog.Handler) slog.Level {
	for _, name := range []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"} {
		if level := slogLevel(name); h.Enabled(context.Background(), level) {
			return level
		}
	}
	return levelOff
}

// slogLevel translates Kafka's words.
func slogLevel(name string) slog.Level {
	switch name {
	case "TRACE":
		return slog.LevelDebug - 4
	case "DEBUG":
		return slog.LevelDebug
	case "INFO":
		return slog.LevelInfo
	case "WARN":
		return slog.LevelWarn
	case "ERROR":
		return slog.LevelError
	case "FATAL":
		return slog.LevelError + 4
	}
	return levelOff
}

func levelName(level slog.Level) string {
	for _, name := range []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"} {
		if level <= slogLevel(name) {
			return name
		}
	}
	return "OFF"
}

// logger makes the logger of that name, or another one with the same level.
func (l *loggers) logger(name string) *slog.Logger {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.named[name]
	if at == nil {
		at = &leveled{}
		at.effective.Store(l.named[rootLogger].effective.Load())
		l.named[name] = at
	}
	return slog.New(&leveledHandler{l.base, at})
}

// Levels is handlers.Loggers.
func (l *loggers) Levels() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	levels := make(map[string]string, len(l.named))
	for name, at := range l.named {
		levels[name] = levelName(slog.Level(at.effective.Load()))
	}
	return levels
}

// Set is handlers.Loggers.
func (l *loggers) Set(name, level string) { l.change(name, slogLevel(level), true) }

// Unset is handlers.Loggers.
func (l *loggers) Unset(name string) { l.change(name, 0, false) }

func (l *loggers) change(name string, level slog.Level, own bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, root := l.named[name], l.named[rootLogger]
	if at == nil {
		return
	}
	if !own {
		level = slog.Level(root.effective.Load())
	}
	at.own = own || at == root
	at.effective.Store(int64(level))
	for _, other := range l.named {
		if at == root && !other.own {
			other.effective.Store(int64(level))
		}
	}
}

// leveledHandler lets pass what its logger's level allows.
type leveledHandler struct {
	slog.Handler
	at *leveled
}

func (h *leveledHandler) Enabled(_ context.Context, level slog.Level) bool {
	return int64(level) >= h.at.effective.Load()
}

func (h *leveledHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &leveledHandler{h.Handler.WithAttrs(attrs), h.at}
}

func (h *leveledHandler) WithGroup(name string) slog.Handler {
	return &leveledHandler{h.Handler.WithGroup(name), h.at}
}
