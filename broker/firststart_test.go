package broker_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore/vfs"
)

// TestPowerCutInTheFirstStart cuts the power at each sync of a broker's very first start:
// between the identity of the directories and the first metadata, between metadata and the
// cluster's id in the directories, and so on. The next start must go through without help,
// and what it acknowledges must survive the one after.
func TestPowerCutInTheFirstStart(t *testing.T) {
	for _, dirs := range []string{"/d1", "/d1,/d2"} {
		for n := 1; ; n++ {
			cut := false
			t.Run(fmt.Sprintf("%s, sync %d", dirs, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cut = cutFirstStart(t, dirs, n) })
			})
			if cut && !t.Failed() {
				continue
			}
			if n < 10 {
				t.Errorf("a first start has %d syncs only", n-1)
			}
			break
		}
	}
}

// cutFirstStart reports whether the power was cut before the start was over.
func cutFirstStart(t *testing.T, dirs string, n int) bool {
	var cut atomic.Bool // syncs run beside each other
	crash := vfs.NewCrash(rand.NewPCG(uint64(n), 1))
	crash.OnSync(func(p vfs.SyncPoint) error {
		if p.N == (n+1)/2 && p.Done == (n%2 == 0) && !cut.Swap(true) { // before and after each
			if n%3 == 0 {
				crash.PowerCutLosingAll()
			} else {
				crash.PowerCut()
			}
		}
		return nil
	})
	m := brokertest.NewMachine(t)
	m.Settings = append(m.Settings, "log.dirs="+dirs)
	m.FS = crash.Process()
	b, err := m.TryStart(t)
	crash.OnSync(nil)
	switch {
	case err == nil && cut.Load():
		_ = b.Stop(t.Context()) // it has not noticed yet
	case err == nil:
		brokertest.Stop(t, b)
		return false
	case !cut.Load():
		t.Fatal(err)
	}

	m.FS = crash.Process()
	if b, err = m.TryStart(t); err != nil {
		t.Fatalf("the next start: %v", err)
	}
	createTopic(t, m, "t", 2)
	toEach(t, m, "t", 2, "a")
	crash.PowerCutLosingAll()
	_ = b.Stop(t.Context()) // of what died with the power

	m.FS = crash.Process()
	m.Start(t)
	expect(t, "values", consume(t, m, "t", 2), []string{"a", "a"})
	return true
}
