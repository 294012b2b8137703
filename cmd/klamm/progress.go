package main

import (
	"fmt"
	"io"
	"time"
)

// progress redraws one line on a terminal about four times a second; elsewhere it is
// silent. Its methods are for one goroutine at a time.
type progress struct {
	out     io.Writer
	verb    string
	start   time.Time
	last    time.Time
	live    bool
	records int64
	bytes   int64
}

// newProgress makes one that draws to out, if that is a terminal and wanted is true.
func newProgress(out io.Writer, verb string, wanted bool) *progress {
	now := time.Now()
	return &progress{out: out, verb: verb, start: now, last: now, live: wanted && isTerminal(out)}
}

// add counts one record and redraws when the last drawing is old.
func (p *progress) add(size int) {
	p.records++
	p.bytes += int64(size)
	if !p.live {
		return
	}
	if now := time.Now(); now.Sub(p.last) >= 250*time.Millisecond {
		p.last = now
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.line(now))
	}
}

// done leaves the last line standing.
func (p *progress) done() {
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[K%s\n", p.line(time.Now()))
	}
}

func (p *progress) line(now time.Time) string {
	seconds := max(now.Sub(p.start).Seconds(), 1e-3)
	return fmt.Sprintf("%s %d records, %.1f MB, %.0f records/s, %.1f MB/s",
		p.verb, p.records, float64(p.bytes)/1e6, float64(p.records)/seconds, float64(p.bytes)/1e6/seconds)
}
