package evidence

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Variables of the environment.
const (
	fileVar   = "KLAMM_EVIDENCE"
	commitVar = "KLAMM_COMMIT"
	firstVar  = "KLAMM_FIRST"
	seedsVar  = "KLAMM_SEEDS"
)

// First is the first seed of a run: KLAMM_FIRST, else 1.
func First() uint64 { return fromEnv(firstVar, 1) }

// Seeds is how many seeds a run takes: KLAMM_SEEDS, else what the caller says.
func Seeds(otherwise int) int { return int(fromEnv(seedsVar, uint64(otherwise))) }

func fromEnv(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 48); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// Line is what one test of a run has tried.
type Line struct {
	Begin  time.Time // by the clock on the wall
	Tier   string
	Test   string
	First  uint64 // seed
	Seeds  int    // that were begun
	Faults int
	Acked  int // batches or records, as the tier counts
	Passed bool
}

// Write adds the line to the file, as of the given time.
func (l Line) Write(now time.Time) error {
	name := os.Getenv(fileVar)
	if name == "" || l.Seeds == 0 {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	_, err = fmt.Fprintln(f, l.text(now))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write evidence: %w", err)
	}
	return nil
}

func (l Line) text(now time.Time) string {
	commit, result := os.Getenv(commitVar), "FAIL"
	if commit == "" {
		commit = "unknown"
	}
	if l.Passed {
		result = "pass"
	}
	return fmt.Sprintf("%s commit=%s tier=%s test=%s seeds=%d-%d faults=%d acked=%d duration=%s result=%s",
		l.Begin.UTC().Format(time.DateOnly), commit, l.Tier, l.Test, l.First, l.First+uint64(l.Seeds)-1,
		l.Faults, l.Acked, now.Sub(l.Begin).Round(time.Second), result)
}
