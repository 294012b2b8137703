package compaction

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/protocol/batch"
)

// TestCleaning plays the cases of Kafka's LogCleanerTest and of MemoryRecordsTest about
// filterTo, as far as they are about batches of magic 2. In the files "log" begins a new one
// (retention=1000, hw=-1 for the end, max= of a group's bytes, plain: a segment's last batch
// may go) and "then" goes on with it, line by line:
//
//	append pid= epoch= txn codec= append-time= t=: a=1@7 b -=3
//	                                   a batch; b is a tombstone, the last has no key
//	commit|abort pid= epoch= t=        a marker
//	forget pid=                        the producer has expired
//	roll
//	clean now= keys= from= on          one cleaning: all is dirty, or what begins at from,
//	                                   or what the last one has left (on)
func TestCleaning(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "log" {
				s = newScript(t, arguments{t, d.CmdArgs})
			}
			s.t = t
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				command, records, _ := strings.Cut(line, ":")
				cmd, args, err := datadriven.ParseLine(strings.TrimSpace(command))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				out.WriteString(s.run(cmd, arguments{t, args}, records))
			}
			return out.String()
		})
	})
}

type script struct{ *fakeLog }

func newScript(t *testing.T, a arguments) *script {
	s := &script{fakeLog: newFakeLog(t)}
	s.retentionMs, s.hw, s.plain = a.number("retention", 1000), a.number("hw", -1), a.has("plain")
	s.maxSize = a.number("max", s.maxSize)
	return s
}

func (s *script) run(cmd string, a arguments, records string) string {
	pid, epoch := a.number("pid", -1), int16(a.number("epoch", 0))
	switch cmd {
	case "append":
		s.append(pid, epoch, a.options(), a.records(records)...)
	case "commit":
		s.endTxn(a.number("t", 0), pid, epoch, batch.ControlCommit)
	case "abort":
		s.endTxn(a.number("t", 0), pid, epoch, batch.ControlAbort)
	case "forget":
		delete(s.producers, pid)
	case "roll":
		s.roll()
	case "clean":
		if !a.has("on") {
			s.checkpoint = a.number("from", 0)
		}
		stats, index := s.clean(a.number("now", 0), int(a.number("keys", 1000)))
		return s.String() + fmt.Sprintf("clean below %d; indexed %d; read %d, kept %d, invalid %d\n",
			s.checkpoint, index.MessagesRead, stats.MessagesRead, stats.MessagesKept, stats.Invalid)
	default:
		s.t.Fatalf("unknown command %s", cmd)
	}
	return ""
}

type arguments struct {
	t    *testing.T
	args []datadriven.CmdArg
}

func (a arguments) find(name string) (datadriven.CmdArg, bool) {
	for _, arg := range a.args {
		if arg.Key == name {
			return arg, true
		}
	}
	return datadriven.CmdArg{}, false
}

func (a arguments) has(name string) bool {
	_, ok := a.find(name)
	return ok
}

func (a arguments) number(name string, otherwise int64) int64 {
	if arg, ok := a.find(name); ok {
		return a.parse(arg.Vals[0])
	}
	return otherwise
}

func (a arguments) parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a arguments) options() batch.BuilderOptions {
	o := batch.BuilderOptions{
		Transactional: a.has("txn"),
		LogAppendTime: a.has("append-time"),
		AppendTimeMs:  a.number("append-time", 0),
	}
	if arg, ok := a.find("codec"); ok {
		for o.Codec.String() != arg.Vals[0] {
			o.Codec++
		}
	}
	return o
}

// records reads key=value@time, with value and time or without.
func (a arguments) records(s string) (records []batch.NewRecord) {
	for _, word := range strings.Fields(s) {
		word, at, timed := strings.Cut(word, "@")
		r := batch.NewRecord{TimestampMs: a.number("t", 0)}
		if timed {
			r.TimestampMs = a.parse(at)
		}
		key, value, hasValue := strings.Cut(word, "=")
		if key != "-" {
			r.Key = []byte(key)
		}
		if hasValue {
			r.Value = []byte(value)
		}
		records = append(records, r)
	}
	return records
}
