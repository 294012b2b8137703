package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// TestCore runs the transcripts in testdata. A core is stepped by hand on a log in memory;
// what is printed is who was answered what, in order. The commands:
//
//	new [linger=ms] [max=bytes] [deadline=ms]   a loaded shard with empty state
//	add NAME ...        one operation for each name: the counter grows by one
//	add-both A B        one operation with two records
//	divisible A B ...   one operation whose records need not be together
//	touch NAME          an operation without records
//	bad                 an operation with a record that the shard does not understand
//	big NAME SIZE       an operation with a record of that size
//	hooked NAME         an operation that adds to NAME-committed or NAME-refused afterwards
//	flush               the queue is empty
//	hw OFFSET           the high watermark
//	sleep MS            time passes, and tick is called
//	refuse KIND | fail KIND | accept   what becomes of appends
//	foreign             somebody else has appended a record
//	lose
//	state               newest and committed state
func TestCore(t *testing.T) {
	datadriven.Walk(t, "testdata/core", func(t *testing.T, path string) {
		h := &coreHarness{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.out.Reset()
			h.do(d)
			return h.out.String()
		})
	})
}

type coreHarness struct {
	t     *testing.T
	out   strings.Builder
	now   time.Time
	log   *fakeLog
	shard *counters
	core  *core
}

func (h *coreHarness) do(d *datadriven.TestData) {
	args := make([]string, len(d.CmdArgs))
	for i, a := range d.CmdArgs {
		args[i] = a.Key
	}
	switch d.Cmd {
	case "new":
		h.begin(d)
	case "add":
		for _, name := range args {
			h.carryOut(h.shard.add(name, h.answers(name)))
		}
	case "add-both", "divisible":
		e := Effects{Divisible: d.Cmd == "divisible", Answers: []func(error){h.answer(strings.Join(args, "+"))}}
		for _, name := range args {
			e.Records = append(e.Records, counterRecord(name, 1))
		}
		h.carryOut(e)
	case "touch":
		h.carryOut(Effects{Answers: []func(error){h.answer("touch " + args[0])}})
	case "bad":
		h.carryOut(Effects{Records: []Record{{Key: []byte("bad"), Value: []byte{1}}}, Answers: []func(error){h.answer("bad")}})
	case "big":
		h.carryOut(Effects{Records: []Record{{Key: make([]byte, h.number(args[1]))}}, Answers: []func(error){h.answer(args[0])}})
	case "hooked":
		h.carryOut(h.hooked(args[0]))
	case "flush":
		if h.core.lost == nil {
			_ = h.core.flush(h.now)
		}
	case "hw":
		h.core.advance(h.now, int64(h.number(args[0])))
	case "sleep":
		h.now = h.now.Add(time.Duration(h.number(args[0])) * time.Millisecond)
		h.core.tick(h.now)
	case "lose":
		h.core.lose()
	case "state":
		h.state()
	default:
		h.change(d.Cmd, args)
	}
	if h.core.lost != nil {
		fmt.Fprintln(&h.out, "lost:", name(h.core.lost))
	}
}

func (h *coreHarness) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *coreHarness) change(cmd string, args []string) {
	h.log.with(0, func(p *fakePartition) {
		switch cmd {
		case "refuse":
			p.refuse = kinds[args[0]]
		case "fail":
			p.fail = kinds[args[0]]
		case "accept":
			p.refuse, p.fail = nil, nil
		case "foreign":
			p.end++
		default:
			h.t.Fatalf("unknown command %q", cmd)
		}
	})
}

var kinds = map[string]error{
	"NOT_ENOUGH_REPLICAS":        kafkaerr.NotEnoughReplicas,
	"KAFKA_STORAGE_ERROR":        kafkaerr.KafkaStorageError,
	"NOT_LEADER_OR_FOLLOWER":     kafkaerr.NotLeaderOrFollower,
	"UNKNOWN_TOPIC_OR_PARTITION": kafkaerr.UnknownTopicOrPartition,
	"INVALID_TIMESTAMP":          kafkaerr.InvalidTimestamp,
	"UNKNOWN":                    errors.New("the disk said something new"),
}

func name(err error) string {
	var k *kafkaerr.Kind
	if errors.As(err, &k) {
		return k.Message
	}
	return err.Error()
}

func (h *coreHarness) begin(d *datadriven.TestData) {
	linger, size, deadline := -1, 1<<20, 0
	d.MaybeScanArgs(h.t, "linger", &linger)
	d.MaybeScanArgs(h.t, "max", &size)
	d.MaybeScanArgs(h.t, "deadline", &deadline)
	h.now = time.UnixMilli(0)
	h.log = newFakeLog(1)
	p := Partition{LeaderEpoch: 1}
	h.log.with(0, func(p *fakePartition) { p.epoch, p.autoCommit, p.max = 1, false, size })
	h.shard = newCounters(0)
	h.shard.onTick = func(time.Time) Effects { return h.shard.add("ticks", h.answers("tick")) }
	if deadline > 0 {
		h.shard.deadline = h.now.Add(time.Duration(deadline) * time.Millisecond)
	}
	none := func(state) int { return 0 }
	h.core = newCore(h.shard, 0, 0, coreOptions{
		append: func(records []byte) (int64, error) {
			base, err := h.log.Append(p, records)
			fmt.Fprintf(&h.out, "append at %d: %v\n", base, err)
			return base, err
		},
		maxBatchBytes: func() int { return h.log.MaxBatchBytes(p) },
		writeTimeout:  5 * time.Second, linger: time.Duration(linger) * time.Millisecond,
		maxBufferBytes: 1 << 20,
		logger:         slog.New(slog.DiscardHandler),
		metrics:        newMetrics(nil, "test", none, func() int { return 0 }),
	})
	h.core.begin(h.now, metadata.Empty())
}

func (h *coreHarness) carryOut(e Effects) { h.core.carryOut(h.now, e) }

func (h *coreHarness) answer(who string) func(error) {
	return func(err error) {
		if err != nil {
			fmt.Fprintf(&h.out, "%s: %s\n", who, name(err))
			return
		}
		fmt.Fprintf(&h.out, "%s: ok\n", who)
	}
}

func (h *coreHarness) answers(who string) func(int64, error) {
	return func(n int64, err error) { h.answer(fmt.Sprintf("%s=%d", who, n))(err) }
}

func (h *coreHarness) hooked(name string) Effects {
	e := h.shard.add(name, h.answers(name))
	e.Committed = func(time.Time) Effects { return h.shard.add(name+"-committed", h.answers(name+"-committed")) }
	e.Refused = func(time.Time, error) Effects { return h.shard.add(name+"-refused", h.answers(name+"-refused")) }
	return e
}

func (h *coreHarness) state() {
	print := func(what string, state map[string]int64) {
		fmt.Fprintf(&h.out, "%s:", what)
		for _, k := range slices.Sorted(maps.Keys(state)) {
			fmt.Fprintf(&h.out, " %s=%d", k, state[k])
		}
		fmt.Fprintln(&h.out)
	}
	print("newest", maps.Collect(h.shard.values.All()))
	print("committed", maps.Collect(h.shard.values.AllCommitted()))
	fmt.Fprintf(&h.out, "end %d, high watermark %d, waiting %d, backlog %d\n", h.core.end, h.core.hw, h.core.waiting.len(), h.core.backlog())
}
