package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// party is one of the two brokers.
type party struct {
	name        string
	addr        string
	dir         string // of its partitions
	start, stop func()
}

func parties(t *testing.T, settings ...string) [2]*party {
	t.Helper()
	klamm := harness.Start(t, settings...)
	kafka := java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), settings...)
	return [2]*party{
		{"Klamm", klamm.Addr, filepath.Join(klamm.Dir, "data"), klamm.Start, func() {
			if code := klamm.Stop(); code != 0 {
				t.Fatalf("Klamm ends with %d:\n%s", code, klamm.Stderr())
			}
		}},
		{"Kafka", kafka.Addr, kafka.Dir(), kafka.Start, kafka.Stop},
	}
}

var codecs = []kgo.CompressionCodecType{0, 1, 2, 3, 4}

// topic is written by one party; the other has one of that name, too, which stays empty
// until the segments come.
func topic(writer *party, codec kgo.CompressionCodecType) string {
	return fmt.Sprintf("of-%s-%d", writer.name, codec)
}

func TestSegmentsMoveBetweenKlammAndKafka(t *testing.T) {
	both := parties(t)
	written := map[string]*writing{}
	for i, p := range both {
		from, to := dial(t, p.addr), dial(t, both[1-i].addr)
		for _, codec := range codecs {
			name := topic(p, codec)
			to.createTopic(name)
			from.createTopic(name)
			written[name] = from.write(name, codec)
		}
		from.close()
		to.close()
	}
	for _, p := range both {
		p.stop()
	}
	for i, p := range both {
		for _, codec := range codecs {
			move(t, p.dir, both[1-i].dir, topic(p, codec)+"-0")
		}
	}
	for _, p := range both {
		p.start()
	}
	for i, p := range both {
		reader := both[1-i]
		c := dial(t, reader.addr)
		for _, codec := range codecs {
			t.Run(fmt.Sprintf("%s reads what %s wrote with codec %d", reader.name, p.name, codec), func(t *testing.T) {
				c := c.of(t)
				c.check(written[topic(p, codec)])
				c.goOn(written[topic(p, codec)])
			})
		}
		c.close()
	}
	for _, p := range both { // and what was appended behind the foreign segments survives
		p.stop()
		p.start()
	}
	for i, p := range both {
		c := dial(t, both[1-i].addr)
		for _, codec := range codecs {
			c.check(written[topic(p, codec)])
		}
		c.close()
	}
}

// check reads the whole partition and looks offsets up by time.
func (c *client) check(w *writing) {
	c.t.Helper()
	if got := c.readAll(w.topic); !bytes.Equal(got, w.bytes) {
		c.t.Errorf("%s: %d bytes are read, %d were written: %v", w.topic, len(got), len(w.bytes), firstDifference(got, w.bytes))
	}
	for time, want := range w.times {
		if got := c.offsetOf(w.topic, time); got != want {
			c.t.Errorf("%s: time %d is found at %v, was at %v", w.topic, time, got, want)
		}
	}
}

func firstDifference(a, b []byte) error {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Errorf("they part at byte %d", i)
		}
	}
	return errors.New("one is longer")
}

// goOn lets the producer of the writing go on: its last batch again is a duplicate, a gap
// is refused, and the next one is appended.
func (c *client) goOn(w *writing) {
	c.t.Helper()
	const outOfOrderSequence = 45
	if code, base := c.produce(w.topic, w.last); code != 0 || base != w.lastOffset {
		c.t.Errorf("%s: the last batch again: code %d at %d, want the duplicate at %d", w.topic, code, base, w.lastOffset)
	}
	if code, _ := c.produce(w.topic, w.batch(w.sequence+7)); code != outOfOrderSequence {
		c.t.Errorf("%s: a gap in the sequence: code %d", w.topic, code)
	}
	next := w.batch(w.sequence)
	code, base := c.produce(w.topic, next)
	if code != 0 || base != w.end {
		c.t.Fatalf("%s: the next batch: code %d at %d, want %d", w.topic, code, base, w.end)
	}
	w.appended(next, base)
	w.bytes = c.readAll(w.topic)
	w.times[newest] = c.offsetOf(w.topic, newest)
}
