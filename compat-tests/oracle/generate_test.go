package oracle

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klamm-mq/klamm/conform/generate"
	"github.com/klamm-mq/klamm/conform/transcripts"
)

const (
	sequenceLength = 60
	// together are the sequences that both brokers are asked before the answers are
	// compared.
	together = 16
	// shrinks are the sequences that are played to make a failing one smaller.
	shrinks = 150
	// maxFindings end a run: more of them most often have the same cause.
	maxFindings = 5
)

// patient keeps retention out of the comparison: it takes segments below the log start
// when its time comes, and that is chance.
const patient = "log.retention.check.interval.ms=86400000"

// TestGenerate plays random sequences, from SEED (1) on, for DURATION (1m).
func TestGenerate(t *testing.T) {
	seed, err := strconv.ParseUint(env("SEED", "1"), 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	duration, err := time.ParseDuration(env("DURATION", "1m"))
	if err != nil {
		t.Fatalf("DURATION: %v", err)
	}
	of, pair := commit(t), pair(t)
	total, found, stopped := generate.Played{}, 0, error(nil)
	begin := time.Now()
	last := seed
	for time.Since(begin) < duration && found < maxFindings && stopped == nil {
		var sequences []generate.Sequence
		for range together {
			sequences = append(sequences, generate.New(last, sequenceLength, pair.Advertised))
			last++
		}
		findings, played, err := pair.Play(t.Context(), sequences...)
		if err != nil {
			t.Error(err)
			stopped = err
		}
		total.Sequences += played.Sequences
		total.Steps += played.Steps
		for _, f := range findings {
			if found++; found <= maxFindings {
				report(t, pair, f)
			}
		}
	}
	result := "no difference"
	switch {
	case found > 0:
		result = fmt.Sprintf("%d sequences differ", found)
	case stopped != nil:
		result += " until it was stopped by an error"
	}
	evidence(t, "%s generate: seeds %d-%d, %d sequences, %d steps compared with Apache Kafka 4.4.0 in %v: %s",
		of, seed, last-1, total.Sequences, total.Steps, time.Since(begin).Round(time.Second), result)
}

func pair(t *testing.T) *generate.Pair {
	t.Helper()
	why, err := transcripts.Explanations()
	if err != nil {
		t.Fatal(err)
	}
	klamm, kafka := os.Getenv("KLAMM"), os.Getenv("KAFKA") // running brokers, for finding a cause
	if klamm == "" {
		klamm = startKlamm(t, patient).Addr
	}
	if kafka == "" {
		kafka = startKafka(t, patient, "log.initial.task.delay.ms=86400000").Addr
	}
	warm(t, klamm)
	warm(t, kafka)
	return &generate.Pair{Broker: connect(t, klamm), Reference: connect(t, kafka), Why: why, Parallel: parallel}
}

func report(t *testing.T, pair *generate.Pair, f generate.Finding) {
	small, err := pair.Shrink(t.Context(), f, shrinks)
	if err != nil {
		t.Log(err)
	}
	var text strings.Builder
	if err := small.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Error(text.String())
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func commit(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// evidence prints a line, and appends it to the file EVIDENCE if that is set.
func evidence(t *testing.T, format string, args ...any) {
	t.Helper()
	line := time.Now().UTC().Format("2006-01-02") + " " + fmt.Sprintf(format, args...)
	t.Log(line)
	name := os.Getenv("EVIDENCE")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
