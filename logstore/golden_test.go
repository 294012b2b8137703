package logstore

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/protocol/batch"
	"github.com/klamm-mq/klamm/protocol/offset"
)

// TestGolden replays the transcripts in testdata/transcripts. Partitions are called topic-number;
// time stands still unless something moves it. The commands:
//
//	config key=value…                  for the logs created or opened from now on
//	open [node=] [cluster=]            OpenDir and OpenLogs
//	create t-0
//	append t-0 v… [epoch=] [ts=] [pid= seq= pepoch=]
//	follow t-0 v… base= [epoch=] [leader=]
//	flush | begin | sync | finish      a round, or its steps
//	assign t-0 epoch= at=
//	roll t-0      truncate t-0 to=     start-at t-0 to=     advance t-0 to=
//	retain t-0 [hw=]
//	delete t-0…   set-aside t-0…   set-aside-failed
//	tick seconds=                      the keeper, second by second, with rounds when woken
//	wait seconds=
//	kill   power-cut   close           power cuts lose everything that is not synced
//	room bytes=                        capacity of the file system, 0 = no limit
//	flip file= pos=   chop file= size=   rm file=   write file= (the input)
//	fail (one errfs rule per line)     heal
//	read t-0 from= [upto=] [max=]      epochs t-0      time t-0 ts=
//	ls [dir]      cat file=            state
//
// Commands that change something print what they answer, log lines above debug, and the
// state of the logs.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		g := newGolden(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) (out string) {
			g.t = t
			defer func() {
				switch r := recover().(type) {
				case nil:
				case noLog:
					out = "there is no such log\n" + g.lines.String() + g.state()
				default:
					panic(r)
				}
			}()
			return g.run(d)
		})
	})
}

// noLog is a panic about a partition that is not there.
type noLog struct{}

type golden struct {
	t      *testing.T
	crash  *vfs.CrashFS
	fs     *errfs.FS
	config Config
	now    time.Time
	d      *Dir
	k      *Keeper
	woken  bool
	round  *FlushRound
	synced error
	failed []ID
	lines  strings.Builder
}

func newGolden(t *testing.T) *golden {
	g := &golden{t: t, config: DefaultConfig(), now: epochTime, crash: vfs.NewCrash(rand.NewPCG(1, 1))}
	g.crash.SetClock(func() time.Time { return g.now })
	g.config.SegmentBytes = 500
	g.config.IndexIntervalBytes = 100
	return g
}

// Write takes the log lines of the directory.
func (g *golden) Write(p []byte) (int, error) { return g.lines.WriteString("  " + string(p)) }

func (g *golden) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(g, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (g *golden) run(d *datadriven.TestData) string {
	g.lines.Reset()
	var out string
	switch d.Cmd {
	case "read", "epochs", "time", "ls", "cat", "state", "producers":
		return g.look(d)
	case "config", "room", "flip", "chop", "rm", "write", "fail", "heal", "wait":
		return g.outside(d)
	case "open", "kill", "power-cut", "close":
		out = g.life(d)
	case "flush", "begin", "sync", "finish", "tick":
		out = g.flushing(d)
	case "create", "delete", "set-aside", "set-aside-failed":
		out = g.directory(d)
	default:
		out = g.change(d)
	}
	return out + g.lines.String() + g.state()
}

func (g *golden) num(d *datadriven.TestData, key string, otherwise int64) int64 {
	if d.HasArg(key) {
		d.ScanArgs(g.t, key, &otherwise)
	}
	return otherwise
}

func (g *golden) str(d *datadriven.TestData, key string) (s string) {
	d.MaybeScanArgs(g.t, key, &s)
	return s
}

// words are the arguments without a value.
func words(d *datadriven.TestData) []string {
	var w []string
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			w = append(w, a.Key)
		}
	}
	return w
}

func (g *golden) id(name string) ID {
	kind, topic, partition := parseDirName(name)
	if kind != partitionDir {
		g.t.Fatalf("%q is no partition", name)
	}
	return testID(topic, partition)
}

func (g *golden) log(name string) *Log {
	id := g.id(name)
	l := g.d.Log(id.TopicID, id.Partition)
	if l == nil {
		panic(noLog{})
	}
	return l
}

func answer(v any, err error) string {
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%v\n", v)
}

func (g *golden) outside(d *datadriven.TestData) string {
	file := filepath.Join("/data", g.str(d, "file"))
	switch d.Cmd {
	case "config":
		for _, a := range d.CmdArgs {
			g.setConfig(a.Key, a.Vals[0])
		}
	case "room":
		g.crash.SetCapacity(g.num(d, "bytes", 0))
	case "wait":
		g.now = g.now.Add(time.Duration(g.num(d, "seconds", 0)) * time.Second)
	case "fail":
		for line := range strings.Lines(d.Input) {
			g.fs.Add(strings.TrimSpace(line))
		}
	case "heal":
		g.fs.Clear()
	case "rm":
		return answer(nil, g.crash.RemoveAll(file))
	default:
		return answer(nil, g.damage(d, file))
	}
	return ""
}

func (g *golden) damage(d *datadriven.TestData, name string) error {
	flag := os.O_RDWR
	if d.Cmd == "write" {
		flag |= os.O_CREATE | os.O_TRUNC
		if err := g.crash.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
	}
	f, err := g.crash.OpenFile(name, flag, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	switch d.Cmd {
	case "flip":
		b := make([]byte, 1)
		pos := g.num(d, "pos", 0)
		if _, err := f.ReadAt(b, pos); err != nil {
			return err
		}
		b[0] ^= 0xff
		_, err = f.WriteAt(b, pos)
	case "chop":
		err = f.Truncate(g.num(d, "size", 0))
	default:
		_, err = f.WriteAt([]byte(d.Input+"\n"), 0)
	}
	return err
}

func (g *golden) setConfig(key, value string) {
	n, err := strconv.ParseInt(value, 10, 64)
	c := &g.config
	switch key {
	case "durability":
		c.Durability, err = DurabilityFsync, nil
		if value == "replicated" {
			c.Durability = DurabilityReplicated
		}
	case "timestamps":
		c.LogAppendTime, err = value == "append", nil
	case "segment-bytes":
		c.SegmentBytes = int32(n)
	case "segment-ms":
		c.SegmentMs = n
	case "retention-ms":
		c.RetentionMs = n
	case "retention-bytes":
		c.RetentionBytes = n
	case "flush-messages":
		c.FlushMessages = n
	case "flush-ms":
		c.FlushMs = n
	case "max-message-bytes":
		c.MaxMessageBytes = int32(n)
	default:
		g.t.Fatalf("config %s", key)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *golden) life(d *datadriven.TestData) string {
	switch d.Cmd {
	case "kill":
		g.d = nil
		g.crash.Kill()
		return ""
	case "power-cut":
		g.d = nil
		g.crash.PowerCutLosingAll()
		return ""
	case "close":
		err := g.d.Close(g.now, g.num(d, "epoch", 1))
		g.d = nil
		return answer(nil, err)
	}
	g.fs = errfs.Wrap(g.crash.Process())
	for line := range strings.Lines(d.Input) {
		g.fs.Add(strings.TrimSpace(line))
	}
	o := testOptions(g.fs)
	o.Logger = g.logger()
	o.NodeID = int32(g.num(d, "node", 1))
	o.ReserveBytes = uint64(g.num(d, "reserve", 1))
	if d.HasArg("cluster") {
		o.ClusterID = g.str(d, "cluster")
	}
	dir, err := OpenDir(o)
	if err != nil {
		return answer(nil, err)
	}
	report, err := dir.OpenLogs(context.Background(), OpenLogsParams{Now: g.now, Threads: 1, Config: func(ID) Config { return g.config }})
	if err != nil {
		dir.Abandon()
		return answer(nil, err)
	}
	g.d, g.round, g.failed = dir, nil, nil
	g.k = NewKeeper(dir, KeeperOptions{
		Wake:          func() { g.woken = true },
		HighWatermark: func(l *Log) (offset.HighWatermark, bool) { return offset.HighWatermark(l.Flushed()), true },
	})
	g.k.Tick(g.now)
	epoch, clean := dir.PreviousBrokerEpoch()
	out := fmt.Sprintf("clean stop: %v, broker epoch %d\n", clean, epoch)
	for _, f := range report.Failed {
		g.failed = append(g.failed, f.ID)
	}
	return out
}

func (g *golden) flushing(d *datadriven.TestData) string {
	switch d.Cmd {
	case "flush":
		return flushedText(g.d.Flush())
	case "begin":
		g.round = g.d.BeginFlush()
		return fmt.Sprintf("round: %v\n", g.round != nil)
	case "sync":
		g.synced = g.round.Sync()
		return answer("synced", g.synced)
	case "finish":
		return flushedText(g.round.Finish(g.synced))
	}
	var out strings.Builder
	for range g.num(d, "seconds", 1) {
		g.now = g.now.Add(time.Second)
		g.k.Tick(g.now)
		if g.woken {
			g.woken = false
			fmt.Fprintf(&out, "%s: woken: %s", g.now.Format("15:04:05"), flushedText(g.d.Flush()))
		}
	}
	return out.String()
}

func flushedText(logs []FlushedLog) string {
	if len(logs) == 0 {
		return "nothing flushed\n"
	}
	parts := make([]string, len(logs))
	for i, f := range logs {
		parts[i] = fmt.Sprintf("%s flushed up to %d", f.Log.ID(), f.Flushed)
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ") + "\n"
}

func (g *golden) directory(d *datadriven.TestData) string {
	if d.Cmd == "set-aside-failed" {
		return answer(nil, g.d.SetAsideFailed(g.now, g.failed...))
	}
	if d.Cmd == "create" {
		_, err := g.d.CreateLog(g.now, g.id(words(d)[0]), g.config)
		return answer(nil, err)
	}
	var logs []*Log
	for _, name := range words(d) {
		logs = append(logs, g.log(name))
	}
	if d.Cmd == "delete" {
		return answer(nil, g.d.DeleteLogs(g.now, logs...))
	}
	return answer(nil, g.d.SetAside(g.now, logs...))
}

func (g *golden) change(d *datadriven.TestData) string {
	w := words(d)
	l := g.log(w[0])
	to := g.num(d, "to", 0)
	switch d.Cmd {
	case "append":
		return g.append(d, l, w[1:])
	case "follow":
		b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: g.num(d, "base", 0), LeaderEpoch: int32(g.num(d, "epoch", 0))})
		for _, v := range w[1:] {
			b.Append(batch.NewRecord{TimestampMs: g.now.UnixMilli(), Value: []byte(v)})
		}
		v, _ := b.Build(nil)
		info, err := l.AppendAsFollower(g.now, v, int32(g.num(d, "leader", g.num(d, "epoch", 0))))
		return answer(infoText(info), err)
	case "assign":
		return answer(nil, l.AssignEpoch(int32(g.num(d, "epoch", 0)), g.num(d, "at", 0)))
	case "roll":
		return answer(nil, l.Roll(g.now))
	case "truncate":
		return answer(nil, l.TruncateTo(to))
	case "start-at":
		return answer(nil, l.TruncateFullyAndStartAt(to))
	case "advance":
		return answer(nil, l.AdvanceLogStart(to))
	case "retain":
		deleted, err := l.Retain(g.now, offset.HighWatermark(g.num(d, "hw", int64(l.LogEnd()))))
		return answer(fmt.Sprintf("deleted %+v", deleted), err)
	default:
		g.t.Fatalf("no command %q", d.Cmd)
		return ""
	}
}

func (g *golden) append(d *datadriven.TestData, l *Log, values []string) string {
	var p *batch.Producer
	latest, _ := l.LatestEpoch()
	if d.HasArg("pid") {
		p = &batch.Producer{ID: g.num(d, "pid", 0), Epoch: int16(g.num(d, "pepoch", 0)), BaseSequence: int32(g.num(d, "seq", 0))}
	}
	ts := g.now.Add(time.Duration(g.num(d, "ts", 0)) * time.Second)
	info, err := l.AppendAsLeader(AppendParams{
		Now: g.now, Records: producedBy(p, ts, values...), LeaderEpoch: int32(g.num(d, "epoch", int64(max(latest, 0)))), RequestVersion: 12,
	})
	return answer(infoText(info), err)
}

func infoText(i AppendInfo) string {
	s := fmt.Sprintf("offsets %d..%d, %d bytes", i.FirstOffset, i.LastOffset, i.AppendedBytes)
	if i.LogAppendTimeMs >= 0 {
		s += fmt.Sprintf(", stamped %s", sinceEpoch(i.LogAppendTimeMs))
	}
	for text, yes := range map[string]bool{", duplicate": i.Duplicate, ", rolled": i.Rolled} {
		if yes {
			s += text
		}
	}
	if i.FlushWanted {
		s += ", flush wanted"
	}
	return s
}

func sinceEpoch(ms int64) string { return fmt.Sprintf("%+ds", (ms-epochTime.UnixMilli())/1000) }

func (g *golden) look(d *datadriven.TestData) string {
	w := words(d)
	switch d.Cmd {
	case "state":
		return g.state()
	case "ls":
		dir := "/data"
		if len(w) > 0 {
			dir = filepath.Join(dir, w[0])
		}
		return g.ls(dir, "")
	case "cat":
		data, err := vfs.ReadFile(g.crash, filepath.Join("/data", g.str(d, "file")))
		return answer(strings.TrimRight(string(data), " \t\n"), err) // a checksum may be the end
	}
	l := g.log(w[0])
	switch d.Cmd {
	case "read":
		views, err := readAll(l, g.num(d, "from", 0), g.num(d, "upto", int64(l.LogEnd())), int(g.num(d, "max", 1<<20)))
		return batchesText(g.t, views) + answer(nil, err)
	case "producers":
		infos, err := l.Producers(g.now)
		return answer(fmt.Sprintf("%+v", infos), err)
	case "epochs":
		return fmt.Sprintf("%v\n", l.epochs.Entries())
	}
	at, found, err := l.OffsetForTimestamp(epochTime.Add(time.Duration(g.num(d, "ts", 0)) * time.Second).UnixMilli())
	largest, any, err2 := l.OffsetOfMaxTimestamp()
	return answer(nil, err) + answer(nil, err2) +
		fmt.Sprintf("by time: %v %s\nlargest: %v %s\n", found, stampText(at), any, stampText(largest))
}

func stampText(t TimestampOffset) string {
	return fmt.Sprintf("%s at %d epoch %d", sinceEpoch(t.TimestampMs), t.Offset, t.LeaderEpoch)
}

func batchesText(t *testing.T, views []batch.View) string {
	var b strings.Builder
	for _, v := range views {
		fmt.Fprintf(&b, "%d..%d epoch %d %d bytes:", v.BaseOffset(), v.LastOffset(), v.LeaderEpoch(), len(v))
		values := valuesOf(t, []batch.View{v})
		for o := v.BaseOffset(); o <= v.LastOffset(); o++ {
			fmt.Fprintf(&b, " %s", values[o])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (g *golden) ls(dir, indent string) string {
	entries, err := g.crash.ReadDir(dir)
	if err != nil {
		return answer(nil, err)
	}
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			fmt.Fprintf(&b, "%s%s/\n%s", indent, e.Name(), g.ls(filepath.Join(dir, e.Name()), indent+"  "))
			continue
		}
		fmt.Fprintf(&b, "%s%s %d\n", indent, e.Name(), size(e))
	}
	return b.String()
}

func size(e fs.DirEntry) int64 {
	info, err := e.Info()
	if err != nil {
		return -1
	}
	return info.Size()
}

// state is one line for the directory if it is not well, and one per log.
func (g *golden) state() string {
	if g.d == nil {
		return "down\n"
	}
	var b strings.Builder
	if g.d.Full() {
		b.WriteString("directory is full\n")
	}
	if err := g.d.Err(); err != nil {
		fmt.Fprintf(&b, "directory is offline: %v\n", err)
	}
	for _, l := range g.d.Logs() {
		fmt.Fprintf(&b, "%s [%d, %d) flushed %d, recovery point %d, segments", l.ID(), l.LogStart(), l.LogEnd(), l.Flushed(), l.RecoveryPoint())
		for _, s := range l.segments() {
			fmt.Fprintf(&b, " %d+%d", s.BaseOffset(), s.Size())
		}
		if err := l.Failure(); err != nil {
			fmt.Fprintf(&b, ", failed: %v", err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
