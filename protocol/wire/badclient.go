package wire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// logEvery is how often a line about one kind of bad client is written at most.
const logEvery = 10 * time.Second

// reason is why a connection ended, as the label of the metric and of the log line.
type reason string

// The reasons.
const (
	reasonClient    reason = "closed_by_client"
	reasonStop      reason = "shutdown"
	reasonIdle      reason = "idle"
	reasonEvicted   reason = "evicted"
	reasonHandler   reason = "request_failed"
	reasonFrameSize reason = "frame_size"
	reasonTLS       reason = "tls_client"
	reasonText      reason = "not_kafka"
	reasonHeader    reason = "bad_header"
	reasonUnserved  reason = "api_not_served"
	reasonHalfFrame reason = "half_frame"
	reasonSlowFrame reason = "slow_frame"
	reasonStalled   reason = "slow_reader"
	reasonMemory    reason = "no_memory_for_frame"
	reasonTooManyIP reason = "too_many_from_address"
	reasonTooFast   reason = "too_fast_from_address"
	reasonTruncated reason = "frame_cut_short"
	reasonRegion    reason = "data_ended_early"
	reasonAccept    reason = "accept_failed"
	reasonIO        reason = "connection_error"
)

// reasonOf sorts the cause of a connection's end.
func reasonOf(err error) reason {
	for _, known := range []struct {
		err    error
		reason reason
	}{
		{errDraining, reasonStop},
		{errIdleStop, reasonStop},
		{errStopped, reasonStop},
		{context.Canceled, reasonStop},
		{errIdle, reasonIdle},
		{errEvicted, reasonEvicted},
		{errHalfFrame, reasonHalfFrame},
		{errSlowFrame, reasonSlowFrame},
		{errStalled, reasonStalled},
		{errMemory, reasonMemory},
		{errTooManyFromIP, reasonTooManyIP},
		{errRegionShort, reasonRegion},
		{errShortHeader, reasonHeader},
		{errBadTags, reasonHeader},
		{io.ErrUnexpectedEOF, reasonTruncated},
		{io.EOF, reasonClient},
		{net.ErrClosed, reasonClient},
		{syscall.ECONNRESET, reasonClient},
		{syscall.EPIPE, reasonClient},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return reasonOfType(err)
}

func reasonOfType(err error) reason {
	var (
		size   *FrameSizeError
		served *UnservedError
		closed *handlerClose
		fast   *tooFast
	)
	switch {
	case errors.As(err, &closed):
		return reasonHandler
	case errors.As(err, &fast):
		return reasonTooFast
	case errors.As(err, &size) && size.isTLS():
		return reasonTLS
	case errors.As(err, &size) && size.isText():
		return reasonText
	case errors.As(err, &size):
		return reasonFrameSize
	case errors.As(err, &served):
		return reasonUnserved
	}
	return reasonIO
}

// quiet reports whether the reason is part of normal life. The others, mostly the
// client's fault, are worth a line in the log.
func (r reason) quiet() bool {
	return r == reasonClient || r == reasonStop || r == reasonIdle || r == reasonIO
}

// limitedLog writes at most one line per kind and logEvery, and counts the others.
type limitedLog struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[reason]*limitedKind
}

type limitedKind struct {
	next       time.Time // no line before
	suppressed int
}

func newLimitedLog(log *slog.Logger) *limitedLog {
	return &limitedLog{log: log, kinds: map[reason]*limitedKind{}}
}

// warn writes a line, unless one of the same kind was written lately.
func (l *limitedLog) warn(kind reason, listener string, remote net.Addr, err error) {
	suppressed, ok := l.allow(kind, time.Now())
	if !ok {
		return
	}
	l.log.Warn("connection trouble", "kind", string(kind), "listener", listener, "remote", addrText(remote), "err", err, "suppressed", suppressed)
}

// addrText is an address as one would type it; a log of JSON would show its parts.
func addrText(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

func (l *limitedLog) allow(kind reason, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[kind]
	if k == nil {
		k = new(limitedKind)
		l.kinds[kind] = k
	}
	if now.Before(k.next) {
		k.suppressed++
		return 0, false
	}
	suppressed, k.suppressed = k.suppressed, 0
	k.next = now.Add(logEvery)
	return suppressed, true
}
