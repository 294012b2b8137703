package raftstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A process killed between creating and extending one of Badger's files leaves it empty,
// which Badger itself refuses at the next start.
func TestBadgerOpensAfterAKillBetweenCreateAndExtend(t *testing.T) {
	for _, name := range []string{"000001.vlog", "000007.vlog", "00001.mem", "00007.mem"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if name != "000001.vlog" { // the first file of all comes in an empty directory
				s, err := OpenBadger(dir, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(s.StoreLog(killedEntry(1)), s.Close()); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := OpenBadger(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// killedDir is the directory of a child process that is to be killed.
const killedDir = "KLAMM_TEST_KILLED_STORE"

// TestBadgerSurvivesSIGKILL kills a process that writes, at times while it still opens
// the store, and expects the next one to find what was acknowledged.
func TestBadgerSurvivesSIGKILL(t *testing.T) {
	dir := t.TempDir()
	acked := uint64(0)
	for kill := range 60 {
		cmd := exec.Command(os.Args[0], strconv.FormatUint(acked, 10))
		cmd.Env = append(os.Environ(), killedDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(rand.N(120*time.Millisecond), func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !strings.HasPrefix(lines.Text(), "acked ") {
				t.Fatalf("kill %d: %s", kill, lines.Text())
			}
			if acked, err = strconv.ParseUint(strings.TrimPrefix(lines.Text(), "acked "), 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		timer.Stop()
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("kill %d: %v", kill, err)
		}
	}
	t.Logf("%d entries acknowledged", acked)
}

// writeUntilKilled is the child: it checks the store and appends to it, and prints the
// index of each entry once it is stored.
func writeUntilKilled(dir string, acked uint64, out io.Writer) error {
	s, err := OpenBadger(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	first, last, err := checkKilled(s, acked)
	if err != nil {
		return err
	}
	if last > acked { // stored, and killed before it could say so
		fmt.Fprintf(out, "acked %d\n", last)
	}
	for index := last + 1; ; index++ {
		if err := s.StoreLog(killedEntry(index)); err != nil {
			return err
		}
		fmt.Fprintf(out, "acked %d\n", index)
		if index%300 == 0 { // as after a snapshot
			if err := errors.Join(s.DeleteRange(max(first, 1), index-100), s.Compact(1<<30)); err != nil {
				return err
			}
			first = index - 99
		}
	}
}

func checkKilled(s Store, acked uint64) (first, last uint64, err error) {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	if last < acked || last > acked+1 {
		return 0, 0, fmt.Errorf("entries %d to %d, acknowledged %d", first, last, acked)
	}
	for index := first; index <= last && last > 0; index++ {
		var got raft.Log
		if err := s.GetLog(index, &got); err != nil {
			return 0, 0, err
		}
		if want := killedEntry(index); got.Index != index || string(got.Data) != string(want.Data) {
			return 0, 0, fmt.Errorf("entry %d is not what was stored", index)
		}
	}
	return first, last, nil
}

// killedEntry is an entry of which some go to Badger's value log.
func killedEntry(index uint64) *raft.Log {
	size := 100
	if index%40 == 0 {
		size = badgerThreshold + 5000
	}
	return &raft.Log{Index: index, Term: 1, Data: []byte(strings.Repeat(fmt.Sprintf("%8d", index), size/8))}
}
