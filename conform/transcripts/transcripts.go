package transcripts

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/conform"
)

// What nobody asks for is not in a binary: `klamm conform` has a single node's alone.
var (
	//go:embed kafka-4.4 explained.txt
	files embed.FS
	//go:embed kafka-4.4-cluster explained-cluster.txt
	clusterFiles embed.FS
)

const (
	dir        = "kafka-4.4"
	clusterDir = "kafka-4.4-cluster"
)

// Reference is the broker that the transcripts were recorded from.
const Reference = "Apache Kafka 4.4.0, recorded"

// Load reads all transcripts of a single node, by the name of the scenario.
func Load() (map[string]conform.Transcript, error) { return loadAll(files, dir) }

// LoadCluster reads those of three nodes.
func LoadCluster() (map[string]conform.Transcript, error) { return loadAll(clusterFiles, clusterDir) }

func loadAll(files embed.FS, dir string) (map[string]conform.Transcript, error) {
	all := map[string]conform.Transcript{}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if err := load(all, files, path.Join(dir, entry.Name())); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func load(all map[string]conform.Transcript, files embed.FS, name string) error {
	number, _, isRecording := strings.Cut(path.Base(name), "_")
	if !isRecording {
		return nil // the page that keeps the directory
	}
	key, err := strconv.ParseInt(number, 10, 16)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	raw, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	read, err := conform.ReadTranscripts(bytes.NewReader(raw), int16(key))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, t := range read {
		all[t.Scenario] = t
	}
	return nil
}

// Explanations are the differences of Klamm that are meant.
func Explanations() (conform.Explanations, error) { return explanations(files, "explained.txt") }

// ClusterExplanations are those of three nodes.
func ClusterExplanations() (conform.Explanations, error) {
	return explanations(clusterFiles, "explained-cluster.txt")
}

func explanations(files embed.FS, name string) (conform.Explanations, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	all, err := conform.ReadExplanations(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, f.Close()
}

// Write writes the transcripts of outcomes into a directory, a file for each API.
func Write(to string, outcomes []conform.Outcome) error {
	return writeBy("oracle-record", to, outcomes)
}

// WriteCluster is Write for those of three nodes.
func WriteCluster(to string, outcomes []conform.Outcome) error {
	return writeBy("oracle-cluster-record", to, outcomes)
}

// writeBy also says in each file what wrote it.
func writeBy(what, to string, outcomes []conform.Outcome) error {
	byKey := map[int16][]conform.Transcript{}
	for _, o := range outcomes {
		if o.Skipped == "" {
			byKey[o.Scenario.Key] = append(byKey[o.Scenario.Key], o.Transcript)
		}
	}
	for key, of := range byKey {
		var b bytes.Buffer
		fmt.Fprintf(&b, "# Recorded from Apache Kafka 4.4.0 by `make %s`.\n\n", what)
		if err := conform.WriteTranscripts(&b, of); err != nil {
			return err
		}
		api, _ := conform.Lookup(key)
		name := filepath.Join(to, fmt.Sprintf("%02d_%s.txt", key, strings.ToLower(api.Name)))
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
