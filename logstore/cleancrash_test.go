package logstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/logstore/segment"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// TestCleaningSurvivesAnyCrash cleans a log, once for each change of the disk that this makes,
// and there lets the process die or the power fail; the start that follows, which finishes what
// was begun, is cut off as well, several times in a row. What is found then is the log, each
// segment cleaned or as it was, and a further cleaning leaves exactly the survivors.
func TestCleaningSurvivesAnyCrash(t *testing.T) {
	for _, end := range []string{"kill", "power cut", "power cut that loses all"} {
		t.Run(end, func(t *testing.T) {
			whole := newCleanRun(t, 0, 0, end)
			whole.clean()
			whole.judge()
			for at := 1; at <= whole.changes && !t.Failed(); at++ {
				for seed := range uint64(4) {
					r := newCleanRun(t, at, seed, end)
					r.clean()
					r.restarts()
					r.judge()
				}
			}
			t.Logf("%d changes of the disk", whole.changes)
		})
	}
}

// TestCleaningSurvivesFailedSyncs lets each sync of a cleaning fail, as disks do: what it was for
// is lost with the next power cut, although programs see it until then. The next start, of the
// same machine, sees it, too. It is cut off anywhere, by a power cut.
func TestCleaningSurvivesFailedSyncs(t *testing.T) {
	whole := newCleanRun(t, 0, 0, "")
	whole.clean()
	for at := 1; at <= whole.syncs && !t.Failed(); at++ {
		for seed := range uint64(6) {
			r := newCleanRun(t, 0, seed, "power cut")
			r.failSync = at
			r.clean()
			if r.d.Err() == nil {
				t.Fatalf("sync %d: the directory is still online", at)
			}
			r.crashed = true
			r.fs.Kill()
			r.restarts()
			r.fs.PowerCutLosingAll() // of what the failed sync was for as well
			r.d.Abandon()
			r.open()
			r.judge()
		}
	}
	t.Logf("%d syncs", whole.syncs)
}

// cleanRun is one log that is cleaned, and what came of it.
type cleanRun struct {
	t        *testing.T
	fs       *vfs.CrashFS
	rand     *rand.Rand
	end      string // how a life ends
	at       int    // with which change of the disk; 0: not at all
	failSync int    // which sync fails; 0: none
	armed    bool   // changes are counted
	changes  int
	syncs    int
	crashed  bool
	config   Config
	now      time.Time
	trace    []string

	d      *Dir
	before []record
	active int64
}

func newCleanRun(t *testing.T, at int, seed uint64, end string) *cleanRun {
	t.Helper()
	src := rand.NewPCG(uint64(at), seed)
	r := &cleanRun{t: t, fs: vfs.NewCrash(src), rand: rand.New(src), end: end, config: compactConfig(), now: epochTime}
	r.fs.SetPageSize(64)
	r.fs.SetClock(func() time.Time { return r.now })
	l := compactedLog(t, r.open(), r.config, 16+r.rand.IntN(8))
	r.config = l.Config()
	r.before, r.active = recordsOf(t, l), l.active().BaseOffset()
	if err := r.d.checkpointSegments(false); err != nil {
		t.Fatal(err)
	}
	r.at = at
	return r
}

// open starts a life; nil if it is cut off.
func (r *cleanRun) open() *Dir {
	r.t.Helper()
	r.crashed = false
	d, err := OpenDir(testOptions(hookfs.Wrap(r.fs.Process(), true, r.hook)))
	var report OpenReport
	if err == nil {
		report, err = d.OpenLogs(context.Background(), OpenLogsParams{Now: r.now, Threads: 1, Config: func(ID) Config { return r.config }})
	}
	if r.crashed {
		return nil
	}
	if err != nil || len(report.Failed) > 0 {
		r.t.Fatalf("at %d: open: %v %+v\n%s", r.at, err, report.Failed, strings.Join(r.trace, "\n"))
	}
	r.d = d
	return d
}

// hook ends the life before a change of the disk.
func (r *cleanRun) hook(c *hookfs.Call) error {
	switch c.Op {
	case hookfs.Rename, hookfs.Sync, hookfs.SyncDir, hookfs.Write, hookfs.Truncate, hookfs.Remove:
	default:
		return nil
	}
	if !r.armed {
		return nil
	}
	r.trace = append(r.trace, fmt.Sprint("    ", c.Op, " ", c.Name, " ", c.To))
	if c.Op == hookfs.Sync || c.Op == hookfs.SyncDir {
		if r.syncs++; r.syncs == r.failSync {
			r.failNext()
		}
	}
	if r.changes++; r.changes == r.at {
		r.cut()
	}
	return nil
}

func (r *cleanRun) failNext() {
	r.trace = append(r.trace, "  fails")
	r.fs.OnSync(func(vfs.SyncPoint) error {
		r.fs.OnSync(nil)
		return syscall.EIO
	})
}

func (r *cleanRun) cut() {
	r.trace = append(r.trace, "  "+r.end)
	r.crashed = true
	switch r.end {
	case "kill":
		r.fs.Kill()
	case "power cut":
		r.fs.PowerCut()
	default:
		r.fs.PowerCutLosingAll()
	}
}

func (r *cleanRun) log() *Log { return r.d.Log(topicID("t"), 0) }

// clean cleans until it is cut off.
func (r *cleanRun) clean() {
	r.t.Helper()
	r.armed = true
	_, err := cleanNow(r.log(), r.now.Add(time.Minute))
	r.armed = false
	if err != nil && !r.crashed && r.failSync == 0 {
		r.t.Fatalf("clean: %v", err)
	}
	if !r.crashed && r.at > 0 {
		r.cut()
	}
}

// restarts are a few starts that are cut off.
func (r *cleanRun) restarts() {
	r.t.Helper()
	for range r.rand.IntN(3) {
		r.at, r.changes, r.armed = 1+r.rand.IntN(20), 0, true
		r.open()
		r.armed = false
		if !r.crashed {
			r.cut()
		}
	}
	r.at = 0
	if r.crashed && r.open() == nil {
		r.t.Fatal("cut off")
	}
}

// judge looks at what is left.
func (r *cleanRun) judge() {
	r.t.Helper()
	l := r.log()
	got := recordsOf(r.t, l)
	r.isBetween(got)
	for _, name := range fileNames(r.t, r.fs, l.Path()) {
		if _, suffix, stage, ok := segment.ParseStagedName(name); ok && stage != segment.InPlace {
			r.t.Errorf("left: %s %s", name, suffix)
		}
	}
	settleAll(r.t, l)
	if l.CleanedTo() > r.active {
		r.t.Errorf("cleaned to %d of %d", l.CleanedTo(), r.active)
	}
	mustClean(r.t, l, r.now.Add(time.Minute))
	if got, want := recordsOf(r.t, l), survivors(r.before, r.active); !slices.Equal(got, want) {
		r.t.Errorf("at %d, cleaned again:\n%v, want\n%v", r.at, got, want)
	}
	if l.CleanedTo() != r.active {
		r.t.Errorf("cleaned to %d of %d", l.CleanedTo(), r.active)
	}
	if r.rand.IntN(2) == 0 {
		if err := r.d.checkpointSegments(false); err != nil {
			r.t.Error(err)
		}
	}
	r.d.Abandon()
	if r.t.Failed() {
		r.t.Logf("%s", strings.Join(r.trace, "\n"))
	}
	r.lose()
}

// isBetween: what is left is a part of what was there, and has all survivors.
func (r *cleanRun) isBetween(got []record) {
	r.t.Helper()
	rest := r.before
	for _, record := range got {
		i := slices.Index(rest, record)
		if i < 0 {
			r.t.Fatalf("at %d: %v was not there, or not in this order:\n%v", r.at, record, got)
		}
		rest = rest[i+1:]
	}
	for _, record := range survivors(r.before, r.active) {
		if !slices.Contains(got, record) {
			r.t.Fatalf("at %d: %v is lost\n%v\n%s", r.at, record, got, strings.Join(r.trace, "\n"))
		}
	}
}

// lose takes one segment away: the next start must miss it.
func (r *cleanRun) lose() {
	r.t.Helper()
	d := r.open()
	segs := r.log().segments()
	d.Abandon()
	s := segs[r.rand.IntN(len(segs)-1)]
	if err := r.fs.Remove(s.Path()); err != nil {
		r.t.Fatal(err)
	}
	d, report := mustOpen(r.t, testOptions(r.fs.Process()), r.now, r.config)
	defer d.Abandon()
	if len(report.Failed) != 1 {
		r.t.Errorf("at %d: the loss of %s is not seen: %+v", r.at, s.Path(), report)
	}
}
