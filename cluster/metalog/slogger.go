package metalog

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger writes Raft's log lines to slog, one level lower: what Raft calls info (each
// election, each snapshot) is debug to a broker's user, what it calls an error (a peer that
// does not answer) is a warning.
type raftLogger struct {
	logger  *slog.Logger
	name    string
	args    []any
	repeats *repeats
}

func newRaftLogger(l *slog.Logger) hclog.Logger {
	return raftLogger{logger: l, name: "raft", repeats: &repeats{last: map[string]time.Time{}}}
}

// repeats holds back what Raft says of a peer ten times in a second as long as that is away,
// and what a voter says of its elections as long as it is alone.
type repeats struct {
	mu   sync.Mutex
	last map[string]time.Time // by message and its first argument
}

const (
	// repeatPause lies between two lines with the same trouble.
	repeatPause = 10 * time.Second
	// maxRepeats bounds the messages that are remembered.
	maxRepeats = 256
)

func (r *repeats) isOne(now time.Time, msg string, args []any) bool {
	key := msg
	if len(args) > 1 {
		key += fmt.Sprint(args[1])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.last[key]; ok && now.Sub(last) < repeatPause {
		return true
	}
	if len(r.last) >= maxRepeats {
		clear(r.last)
	}
	r.last[key] = now
	return false
}

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error:
		return slog.LevelWarn
	case hclog.Warn:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

func (r raftLogger) enabled(l hclog.Level) bool {
	return l > hclog.Debug && r.logger.Enabled(context.Background(), slogLevel(l))
}

// Log implements hclog.Logger. Debug and trace lines are dropped.
func (r raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if !r.enabled(level) || level >= hclog.Warn && r.repeats.isOne(time.Now(), msg, args) {
		return
	}
	pairs := slices.Concat(r.args, args)
	for i, a := range pairs {
		pairs[i] = plain(a)
	}
	pairs = append([]any{"message", msg}, pairs...)
	r.logger.With("part", r.name).Log(context.Background(), slogLevel(level), "raft", pairs...)
}

// plain resolves hclog's own formatting types.
func plain(arg any) any {
	if f, ok := arg.(hclog.Format); ok && len(f) > 0 {
		if format, ok := f[0].(string); ok {
			return fmt.Sprintf(format, f[1:]...)
		}
	}
	return arg
}

func (r raftLogger) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r raftLogger) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r raftLogger) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r raftLogger) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r raftLogger) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r raftLogger) IsTrace() bool { return false }
func (r raftLogger) IsDebug() bool { return false }
func (r raftLogger) IsInfo() bool  { return r.enabled(hclog.Info) }
func (r raftLogger) IsWarn() bool  { return r.enabled(hclog.Warn) }
func (r raftLogger) IsError() bool { return r.enabled(hclog.Error) }

func (r raftLogger) ImpliedArgs() []any { return r.args }

func (r raftLogger) With(args ...any) hclog.Logger {
	r.args = slices.Concat(r.args, args)
	return r
}

func (r raftLogger) Name() string { return r.name }

func (r raftLogger) Named(name string) hclog.Logger { return r.ResetNamed(r.name + "." + name) }

func (r raftLogger) ResetNamed(name string) hclog.Logger {
	r.name = name
	return r
}

// SetLevel does nothing: slog's handler decides.
func (r raftLogger) SetLevel(hclog.Level)  {}
func (r raftLogger) GetLevel() hclog.Level { return hclog.Info }

func (r raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(r.logger.Handler(), slog.LevelDebug)
}

func (r raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
