package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/errfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// inBubble runs a test with a machine in virtual time. A goroutine that is left when it
// returns fails the test.
func inBubble(t *testing.T, test func(t *testing.T, m *brokertest.Machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, brokertest.NewMachine(t)) })
}

// mustRefuse starts a broker that must not start, and returns why it does not.
func mustRefuse(t *testing.T, m *brokertest.Machine, settings ...string) error {
	t.Helper()
	b, err := m.TryStart(t, settings...)
	if err == nil {
		brokertest.Stop(t, b)
		t.Fatal("it starts")
	}
	return err
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestDirectoryInUse(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		b := m.Start(t)
		err := mustRefuse(t, m, "listeners=PLAINTEXT://broker-1:9093")
		if !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("refused by %v", err)
		}
		wantText(t, err, "/data")
		produce(t, newClient(t, m), "t", "the first goes on")
		brokertest.Stop(t, b)
		m.Start(t)
	})
}

// A directory that belongs to somebody else is refused, and stays as it was.
func TestForeignDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		key        string
	}{
		"of another node":    {"meta.properties", "version=1\nnode.id=7\n", "node.id"},
		"of another cluster": {"meta.properties", "version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n", "cluster.id"},
		"of a Kafka broker":  {"__cluster_metadata-0/00000000000000000000.log", "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *brokertest.Machine) {
				name := filepath.Join("/data", c.file)
				if err := m.FS.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := vfs.WriteFileAtomic(m.FS, name, []byte(c.text)); err != nil {
					t.Fatal(err)
				}
				err := mustRefuse(t, m, "node.id=1", "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ")
				var foreign *logstore.ForeignDirError
				if !errors.As(err, &foreign) || foreign.Key != c.key {
					t.Errorf("refused by %v", err)
				}
				if text, err := vfs.ReadFile(m.FS, name); err != nil || string(text) != c.text {
					t.Errorf("the file is %q now, %v", text, err)
				}
			})
		})
	}
}

// Partitions whose metadata log is gone, be it that its disk is not mounted, are not taken
// for strays of a new cluster: the start is refused, and everything is there again when the
// metadata log is back.
func TestMetadataIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Settings = append(m.Settings, "log.dirs=/d1,/d2")
		b := m.Start(t)
		createTopic(t, m, "t", 4)
		toEach(t, m, "t", 4, "a")
		brokertest.Stop(t, b)
		if err := m.FS.Rename("/d1", "/elsewhere"); err != nil {
			t.Fatal(err)
		}
		var lost *broker.LostMetadataError
		err := mustRefuse(t, m)
		if !errors.As(err, &lost) {
			t.Fatalf("refused by %v", err)
		}
		wantText(t, err, "/d1/klamm-metadata", "/d2/t-")
		if err := errors.Join(m.FS.RemoveAll("/d1"), m.FS.Rename("/elsewhere", "/d1")); err != nil {
			t.Fatal(err)
		}
		m.Start(t)
		expect(t, "values", consume(t, m, "t", 4), []string{"a", "a", "a", "a"})
	})
}

// A configuration that names the cluster, as container images have it, does not make a new
// disk one whose metadata log has been lost.
func TestNewDiskOfANamedCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := brokertest.NewMachine(t)
		m.Settings = append(m.Settings, "cluster.id=5L6g3nShT-eMCtK--X86sw")
		env := m.Env()
		env.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		b, err := broker.Start(t.Context(), brokertest.Config(t, m.Settings...), env)
		if err != nil {
			t.Fatal(err)
		}
		brokertest.Stop(t, b)
		if log.Len() > 0 {
			t.Errorf("the first start warns:\n%s", &log)
		}
	})
}

// A start that waits for the disk says in which step it did.
func TestSlowStepIsNamedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := brokertest.NewMachine(t)
		env := m.Env()
		env.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		env.FS = hookfs.Wrap(vfs.NewMem(), true, func(c *hookfs.Call) error {
			if c.Op == hookfs.Rename && strings.HasSuffix(c.To, "meta.properties") {
				<-time.After(2 * time.Second)
			}
			return nil
		})
		b, err := broker.Start(t.Context(), brokertest.Config(t, "log.dirs=/data", "listeners=PLAINTEXT://broker-1:9092", "admin.listener="), env)
		if err != nil {
			t.Fatal(err)
		}
		brokertest.Stop(t, b)
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `step="opening log directories" took=2s`) {
			t.Errorf("logged %s", got)
		}
	})
}

// A port that is taken is found out early, named, and nothing stays locked.
func TestPortTaken(t *testing.T) {
	for key, settings := range map[string][]string{
		"listeners":      {"listeners=PLAINTEXT://broker-1:9092,OTHER://broker-1:9099", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT", "inter.broker.listener.name=PLAINTEXT"},
		"admin.listener": {"admin.listener=broker-1:9099"},
	} {
		t.Run(key, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *brokertest.Machine) {
				taken, err := m.Net.Listen("broker-1:9099")
				if err != nil {
					t.Fatal(err)
				}
				err = mustRefuse(t, m, settings...)
				if !errors.Is(err, syscall.EADDRINUSE) {
					t.Errorf("refused by %v", err)
				}
				wantText(t, err, key, "broker-1:9099")
				_ = taken.Close()
				m.Start(t, settings...)
			})
		})
	}
}

func TestDirectoryCannotBeUsed(t *testing.T) {
	for rule, want := range map[string]string{
		"mkdir dir=/data err=EROFS":   "read-only",
		"mkdir dir=/data err=EACCES":  "permission denied",
		"lock *.lock err=EROFS":       "read-only",
		"write meta.pro* err=ENOSPC":  "no space",
		"any *klamm-metadata err=EIO": "input/output error",
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *brokertest.Machine) {
				disk := m.FS
				m.FS = errfs.Wrap(disk, rule)
				wantText(t, mustRefuse(t, m), "/data", want)
				m.FS = disk
				m.Start(t)
			})
		})
	}
}

// Whichever call on the disk fails during a start: the broker starts all the same or says
// what failed, leaves no goroutine and no lock behind, and starts when the disk is well.
func TestStartSurvivesEachFailure(t *testing.T) {
	if calls := failEach(t, nil); calls < 50 {
		t.Errorf("a start makes %d calls; are all of them seen?", calls)
	}
}

// The same for a start after a crash, which has logs to recover.
func TestRestartSurvivesEachFailure(t *testing.T) {
	failEach(t, func(t *testing.T, m *brokertest.Machine) {
		b := m.Start(t)
		createTopic(t, m, "t", 2)
		produce(t, newClient(t, m), "t", numbered(0, 10)...)
		brokertest.Stop(t, b)
		if err := m.FS.Remove("/data/.kafka_cleanshutdown"); err != nil {
			t.Fatal(err)
		}
	})
}

// failEach starts a broker on a disk that prepare has filled, once for each call that a
// start makes, which then fails; it returns their number.
func failEach(t *testing.T, prepare func(*testing.T, *brokertest.Machine)) (calls int) {
	for failing := true; failing && !t.Failed(); {
		calls++
		inBubble(t, func(t *testing.T, m *brokertest.Machine) {
			if prepare != nil {
				prepare(t, m)
			}
			disk := m.FS
			var (
				mu       sync.Mutex // guards what follows: a start has several goroutines
				n        int
				failed   string
				starting = true
			)
			m.FS = hookfs.Wrap(disk, true, func(c *hookfs.Call) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n != calls || !starting {
					return nil
				}
				failed = fmt.Sprintf("%s of %s", c.Op, c.Name)
				return syscall.EIO
			})
			b, err := m.TryStart(t)
			mu.Lock()
			starting, failing = false, failed != ""
			mu.Unlock()
			if err == nil {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_ = b.Stop(ctx) // it may report what failed
			}
			if err != nil && !failing {
				t.Errorf("call %d did not come, and yet: %v", calls, err)
			}
			m.FS = disk
			if b, err := m.TryStart(t); err != nil {
				t.Errorf("after %s failed, call %d, it does not start any more: %v", failed, calls, err)
			} else {
				brokertest.Stop(t, b)
			}
		})
	}
	return calls
}

// What is in a cluster's metadata outlives its broker; epochs rise.
func TestRestartKeepsWhatWasThere(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		b := m.Start(t)
		createTopic(t, m, "t", 3)
		before, epoch := b.Image(), b.BrokerEpoch()
		brokertest.Stop(t, b)
		b = m.Start(t)
		after := b.Image()
		if after.ClusterID() != before.ClusterID() || after.ClusterID() == "" {
			t.Errorf("cluster %q became %q", before.ClusterID(), after.ClusterID())
		}
		was, is := before.Topic("t"), after.Topic("t")
		if is == nil || is.ID != was.ID || len(is.Partitions) != 3 {
			t.Fatalf("topic %+v became %+v", was, is)
		}
		for i := range is.Partitions {
			if is.Partitions[i].LeaderEpoch <= was.Partitions[i].LeaderEpoch {
				t.Errorf("leader epoch %d became %d", was.Partitions[i].LeaderEpoch, is.Partitions[i].LeaderEpoch)
			}
		}
		if b.BrokerEpoch() <= epoch {
			t.Errorf("broker epoch %d became %d", epoch, b.BrokerEpoch())
		}
	})
}

// A client that comes by a listener is told that listener's advertised address.
func TestListenersAdvertiseThemselves(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		b := m.Start(t,
			"listeners=INSIDE://broker-1:9092,OUTSIDE://broker-1:9094,PLAIN://broker-1:0",
			"advertised.listeners=INSIDE://broker-1:9092,OUTSIDE://shop.example:19094,PLAIN://broker-1:19095",
			"listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,PLAIN:PLAINTEXT",
			"inter.broker.listener.name=INSIDE")
		for listener, want := range map[string]string{
			"INSIDE": "broker-1:9092", "OUTSIDE": "shop.example:19094", "PLAIN": "broker-1:19095",
		} {
			if got := advertisedAt(t, m, b.Addr(listener).String()); got != want {
				t.Errorf("%s at %s says %s, want %s", listener, b.Addr(listener), got, want)
			}
		}
		if b.Addr("NONE") != nil || len(b.Listeners()) != 3 {
			t.Errorf("listeners %v", b.Listeners())
		}
	})
}

// Without advertised.listeners a client is told the address that it came by.
func TestListenerAdvertisesWhereItWasAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.Start(t, "listeners=PLAINTEXT://:9092")
		if got := advertisedAt(t, m, "broker-1:9092"); got != "broker-1:9092" {
			t.Errorf("it says %s", got)
		}
	})
}

// advertisedAt asks at an address where the broker is.
func advertisedAt(t *testing.T, m *brokertest.Machine, addr string) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.Dialer(m.Dial))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client.SeedBrokers()[0])
	if err != nil || len(resp.Brokers) != 1 {
		t.Fatalf("metadata from %s: %+v, %v", addr, resp, err)
	}
	return fmt.Sprintf("%s:%d", resp.Brokers[0].Host, resp.Brokers[0].Port)
}

// page gets a page of the admin listener.
func page(t *testing.T, m *brokertest.Machine, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: m.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://broker-1:9644"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return resp.StatusCode, string(text)
}

const withAdmin = "admin.listener=broker-1:9644"

// A start that takes long is live, and says what it waits for.
func TestPagesDuringAndAfterAStart(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		reached, goOn := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		m.FS = hookfs.Wrap(m.FS, true, func(c *hookfs.Call) error {
			if strings.Contains(c.Name, "klamm-metadata") && once.CompareAndSwap(false, true) {
				close(reached)
				<-goOn
			}
			return nil
		})
		started := make(chan struct{})
		go func() {
			defer close(started)
			m.Start(t, withAdmin)
		}()
		<-reached
		if status, body := page(t, m, "/live"); status != http.StatusOK {
			t.Errorf("live: %d %s", status, body)
		}
		if status, body := page(t, m, "/ready"); status != http.StatusServiceUnavailable || !strings.Contains(body, "opening the metadata log") {
			t.Errorf("ready: %d %s", status, body)
		}
		close(goOn)
		<-started
		if status, body := page(t, m, "/ready"); status != http.StatusOK || body != "ready\n" {
			t.Errorf("ready: %d %q", status, body)
		}
		if status, _ := page(t, m, "/nothing"); status != http.StatusNotFound {
			t.Errorf("a page that does not exist: %d", status)
		}
	})
}

// One of several disks fails in service. What is on it is answered with
// KAFKA_STORAGE_ERROR, the others go on, and whoever looks is told.
func TestDirectoryThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		disk := errfs.Wrap(m.FS)
		m.FS = disk
		b := startDoomed(t, m, "log.dirs=/d1,/d2", withAdmin)
		createTopic(t, m, "t", 4)
		toEach(t, m, "t", 4, "before")
		disk.Add("sync dir=/d2 err=EIO")

		failed, went := 0, 0
		for p := range int32(4) {
			switch code := produceRaw(t, m, "t", p); code {
			case 0:
				went++
			case 56: // KAFKA_STORAGE_ERROR
				failed++
			default:
				t.Errorf("partition %d: error %d", p, code)
			}
		}
		if failed != 2 || went != 2 {
			t.Errorf("%d partitions failed and %d went on, want 2 each", failed, went)
		}
		for p := range int32(4) { // again, the failure has been noticed
			if code := produceRaw(t, m, "t", p); code == 0 {
				went++
			}
		}
		if went != 4 {
			t.Errorf("%d produces went well, want 4", went)
		}
		if err := b.Err(); err != nil {
			t.Errorf("the broker gave up: %v", err)
		}
		if status, body := page(t, m, "/ready"); status != http.StatusOK || !strings.Contains(body, "/d2 is offline") || strings.Contains(body, "/d1") {
			t.Errorf("ready: %d %s", status, body)
		}
		_, metrics := page(t, m, "/metrics")
		for _, line := range []string{`klamm_log_dir_offline{dir="/d1"} 0`, `klamm_log_dir_offline{dir="/d2"} 1`} {
			if !strings.Contains(metrics, line) {
				t.Errorf("metrics do not say %s", line)
			}
		}
		disk.Add("any dir=/d1 err=EIO") // and the last one
		<-b.Failed()
	})
}

// startDoomed starts a broker that may complain when it is stopped at the end.
func startDoomed(t *testing.T, m *brokertest.Machine, settings ...string) *broker.Broker {
	t.Helper()
	b, err := m.TryStart(t, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = b.Stop(ctx)
	})
	return b
}

// produceRaw produces one record without retries and returns the error code.
func produceRaw(t *testing.T, m *brokertest.Machine, topic string, partition int32) int16 {
	t.Helper()
	client := newClient(t, m, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
	defer client.Close()
	err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")}).FirstErr()
	return kafkaCode(err)
}

// A directory that cannot be opened at a start shows in the metrics, too.
func TestDirectoryMissingAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		m.FS = errfs.Wrap(m.FS, "any dir=/d2 err=EIO")
		m.Start(t, "log.dirs=/d1,/d2", withAdmin)
		if status, body := page(t, m, "/ready"); status != http.StatusOK || !strings.Contains(body, "/d2 is offline") {
			t.Errorf("ready: %d %s", status, body)
		}
		if _, metrics := page(t, m, "/metrics"); !strings.Contains(metrics, `klamm_log_dir_offline{dir="/d2"} 1`) {
			t.Error("metrics do not say that /d2 is offline")
		}
	})
}

func TestMetadataDirectoryOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		disk := errfs.Wrap(m.FS)
		m.FS = disk
		b := m.Start(t, "metadata.log.dir=/meta")
		createTopic(t, m, "t", 2)
		time.Sleep(2 * time.Second) // the partitions get their files
		if names := list(t, m.FS, "/meta"); !slices.Contains(names, "klamm-metadata") || slices.Contains(names, "t-0") {
			t.Errorf("/meta holds %v", names)
		}
		if names := list(t, m.FS, "/data"); slices.Contains(names, "klamm-metadata") || !slices.Contains(names, "t-0") {
			t.Errorf("/data holds %v", names)
		}
		brokertest.Stop(t, b)
		b = startDoomed(t, m, "metadata.log.dir=/meta")
		produce(t, newClient(t, m), "t", "x")

		disk.Add("sync dir=/meta err=EIO") // without metadata a broker can do nothing
		admin := kadm.NewClient(newClient(t, m))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _, _ = admin.CreateTopic(ctx, 1, 1, nil, "u") }()
		<-b.Failed()
		wantText(t, b.Err(), "/meta")
	})
}

func list(t *testing.T, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
