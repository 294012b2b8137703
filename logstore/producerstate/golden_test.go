package producerstate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/batch"
)

const testDir = "/d/t-0"

// TestGolden replays the transcripts in testdata/transcripts. The commands:
//
//	new [expiration=ms]
//	data pid= epoch= seq= n= [txn] [ts=] [origin=client|coordinator|replication] [zero]
//	marker pid= epoch= (commit|abort) [coordinator=] [ts=] [tv=] [origin=]
//	plain n=                              batch without producer
//	high-watermark offset=   log-start offset=
//	expire now=   late now= timeout=
//	snapshot   load start= end= [now=]   truncate-fully at=   restart
//	delete-before offset=   delete-stray bases=(…)   flip snapshot= pos=
//
// A batch goes to the end offset, if Check lets it. Every command prints the state.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		g := &golden{fs: vfs.NewMem()}
		if err := g.fs.MkdirAll(testDir, 0o755); err != nil {
			t.Fatal(err)
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			g.t = t
			return g.run(d) + g.state()
		})
	})
}

type golden struct {
	t          *testing.T
	fs         vfs.FS
	m          *Manager
	expiration time.Duration
}

func (g *golden) arg(d *datadriven.TestData, name string, otherwise int64) int64 {
	if d.HasArg(name) {
		d.ScanArgs(g.t, name, &otherwise)
	}
	return otherwise
}

func (g *golden) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "data", "plain":
		return g.append(d, g.dataBatch(d))
	case "marker":
		return g.append(d, g.markerBatch(d))
	case "high-watermark":
		g.m.OnHighWatermark(g.arg(d, "offset", 0))
	case "log-start":
		g.m.AdvanceLogStart(g.arg(d, "offset", 0))
	case "expire":
		return fmt.Sprintln("expired", g.m.RemoveExpired(time.UnixMilli(g.arg(d, "now", 0))))
	case "late":
		return fmt.Sprintln(g.m.HasLateTransaction(time.UnixMilli(g.arg(d, "now", 0)), time.Duration(g.arg(d, "timeout", 0))*time.Millisecond))
	case "new":
		g.expiration = time.Duration(g.arg(d, "expiration", 10_000)) * time.Millisecond
		g.m = New(Options{FS: g.fs, Dir: testDir, Expiration: g.expiration})
	default:
		return g.files(d)
	}
	return ""
}

// files are the commands that touch snapshots.
func (g *golden) files(d *datadriven.TestData) string {
	var err error
	switch d.Cmd {
	case "snapshot":
		var taken bool
		taken, err = g.m.TakeSnapshot(true)
		if !taken {
			return "none taken\n"
		}
	case "restart":
		g.m = New(Options{FS: g.fs, Dir: testDir, Expiration: g.expiration})
		err = g.m.ListSnapshots()
	case "load":
		err = g.m.Load(g.arg(d, "start", 0), g.arg(d, "end", 0), time.UnixMilli(g.arg(d, "now", 0)))
	case "truncate-fully":
		err = g.m.TruncateFully(g.arg(d, "at", 0))
	case "delete-before":
		err = g.m.DeleteSnapshotsBefore(g.arg(d, "offset", 0))
	case "delete":
		err = g.m.DeleteSnapshot(g.arg(d, "offset", 0))
	case "delete-stray":
		var bases []int64
		for _, v := range d.CmdArgs[0].Vals {
			var o int64
			if _, err := fmt.Sscan(v, &o); err != nil {
				g.t.Fatal(err)
			}
			bases = append(bases, o)
		}
		err = g.m.DeleteStraySnapshots(bases)
	case "flip":
		err = flip(g.fs, g.m.snapshotFile(g.arg(d, "snapshot", 0)), g.arg(d, "pos", 0))
	default:
		return "unknown command\n"
	}
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	return ""
}

func flip(fs vfs.FS, name string, pos int64) error {
	data, err := vfs.ReadFile(fs, name)
	if err != nil {
		return err
	}
	data[pos] ^= 0xff
	return writeFile(fs, name, data, false)
}

func (g *golden) dataBatch(d *datadriven.TestData) batch.View {
	records := make([]batch.NewRecord, g.arg(d, "n", 1))
	for i := range records {
		records[i] = batch.NewRecord{TimestampMs: g.arg(d, "ts", 1000), Value: []byte("v")}
	}
	o := batch.BuilderOptions{BaseOffset: g.m.EndOffset(), Transactional: d.HasArg("txn")}
	if d.Cmd == "data" {
		o.Producer = &batch.Producer{ID: g.arg(d, "pid", 1), Epoch: int16(g.arg(d, "epoch", 0)), BaseSequence: int32(g.arg(d, "seq", 0))}
	}
	return batch.New(o, records...)
}

func (g *golden) markerBatch(d *datadriven.TestData) batch.View {
	m := batch.EndTxnMarker{Type: batch.ControlCommit, CoordinatorEpoch: int32(g.arg(d, "coordinator", 0))}
	if d.HasArg("abort") {
		m.Type = batch.ControlAbort
	}
	v := batch.NewEndTxnMarker(g.arg(d, "ts", 1000), g.arg(d, "pid", 1), int16(g.arg(d, "epoch", 0)), m)
	v.SetBaseOffset(g.m.EndOffset())
	return v
}

func (g *golden) append(d *datadriven.TestData, v batch.View) string {
	origins := map[string]Origin{"client": OriginClient, "coordinator": OriginCoordinator, "replication": OriginReplication}
	origin := "client"
	if d.HasArg("origin") {
		d.ScanArgs(g.t, "origin", &origin)
	}
	original, dup, err := g.m.Check(v, CheckParams{Origin: origins[origin], TransactionVersion: int16(g.arg(d, "tv", 0)), NewMustStartAtZero: d.HasArg("zero")})
	switch {
	case err != nil:
		return fmt.Sprintf("refused: %v\n", err)
	case dup:
		return fmt.Sprintf("duplicate of %d..%d, timestamp %d\n", original.FirstOffset(), original.LastOffset, original.TimestampMs)
	}
	done, ended, err := g.m.Update(v)
	switch {
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	case ended:
		return fmt.Sprintf("appended, ends %+v\n", done)
	}
	return "appended\n"
}

func (g *golden) state() string {
	var out strings.Builder
	fmt.Fprintf(&out, "end %d", g.m.EndOffset())
	if o, ok := g.m.FirstUnstableOffset(); ok {
		fmt.Fprintf(&out, ", unstable from %d", o)
	}
	if o, ok := g.m.FirstUndecidedOffset(); ok {
		fmt.Fprintf(&out, ", undecided from %d", o)
	}
	if len(g.m.Snapshots()) > 0 {
		fmt.Fprintf(&out, ", snapshots %d", g.m.Snapshots())
	}
	for p := range g.m.Producers() {
		fmt.Fprintf(&out, "\n  producer %d epoch %d", p.ID, p.Epoch)
		if p.CoordinatorEpoch != None {
			fmt.Fprintf(&out, " coordinator %d", p.CoordinatorEpoch)
		}
		if p.TxnFirstOffset != None {
			fmt.Fprintf(&out, " transaction from %d", p.TxnFirstOffset)
		}
		fmt.Fprintf(&out, " last %d:", p.LastTimestampMs)
		for _, b := range p.Batches() {
			fmt.Fprintf(&out, " [seq %d..%d at %d..%d]", b.FirstSequence(), b.LastSequence, b.FirstOffset(), b.LastOffset)
		}
	}
	return out.String() + "\n"
}
