package logstore

import (
	"errors"
	"fmt"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// CorruptionError says that bytes which a sync had reported durable are not what was
// written, and where. The partition it belongs to must not lead, and its file is kept
// (design decision D24). It is KAFKA_STORAGE_ERROR to clients.
type CorruptionError struct {
	File   string // path of the damaged or missing file or directory
	Pos    int64  // first bad byte, -1 if the file is missing
	Offset int64  // first record that is lost or in doubt, -1 if unknown
	Err    error  // what was found there
}

func (e *CorruptionError) Error() string {
	where := e.File
	if e.Pos >= 0 {
		where = fmt.Sprintf("%s at byte %d", where, e.Pos)
	}
	if e.Offset >= 0 {
		where = fmt.Sprintf("%s (offset %d)", where, e.Offset)
	}
	return fmt.Sprintf("corruption in %s: %v", where, e.Err)
}

// damaged makes the error of one file the error of its log.
func damaged(e *segment.CorruptionError) *CorruptionError {
	return &CorruptionError{File: e.File, Pos: e.Pos, Offset: -1, Err: errors.New(e.Reason)}
}

// Unwrap gives the cause and the kind that clients see.
func (e *CorruptionError) Unwrap() []error { return []error{e.Err, kafkaerr.KafkaStorageError} }

// ForeignDirError refuses a directory that belongs to somebody else (decision D23):
// another node, another cluster, or a Kafka broker with its own metadata log.
type ForeignDirError struct {
	File   string // file that says so
	Key    string // property in it, "" for a file whose existence is the reason
	Found  string
	Wanted string
}

func (e *ForeignDirError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s belongs to an Apache Kafka broker: %s; take the directory over explicitly or choose another", e.File, e.Found)
	}
	return fmt.Sprintf("%s: %s is %q, but this broker has %q; the directory belongs to another broker", e.File, e.Key, e.Found, e.Wanted)
}

// ErrDirFull is returned by appends while the directory has less room than its
// reserve. Nothing was written. It ends by itself when room comes back.
var ErrDirFull = fmt.Errorf("log directory is full: %w", kafkaerr.KafkaStorageError)

// ErrDirOffline is returned by everything in a directory whose disk failed. It does
// not end before the process does, since no sync is ever retried.
var ErrDirOffline = fmt.Errorf("log directory is offline: %w", kafkaerr.KafkaStorageError)

// offlineError is ErrDirOffline with what has happened to the disk.
type offlineError struct{ cause error }

func (e *offlineError) Error() string   { return ErrDirOffline.Error() + ": " + e.cause.Error() }
func (e *offlineError) Unwrap() []error { return []error{ErrDirOffline, e.cause} }

// OfflineCause is what has happened to the disk of a directory that is offline: the part of its
// error that is not the same for all.
func OfflineCause(err error) error {
	var offline *offlineError
	if errors.As(err, &offline) {
		return offline.cause
	}
	return err
}

// MayPass tells that an error is of a state that ends by itself: no room, no descriptor
// left. What failed with it was not done, and may be tried again.
func MayPass(err error) bool { return isNoSpace(err) || isBusy(err) || errors.Is(err, ErrDirFull) }

// ErrClosed is returned by a log that was closed, deleted or set aside.
var ErrClosed = fmt.Errorf("log is closed: %w", kafkaerr.NotLeaderOrFollower)

// ErrUnexpectedOffset is returned by AppendAsFollower for records that do not continue
// the log (Kafka's UnexpectedAppendOffsetException, OffsetsOutOfOrderException).
var ErrUnexpectedOffset = errors.New("records do not continue the log")
