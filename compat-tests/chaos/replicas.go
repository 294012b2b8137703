package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// dumped is a line of `klamm log dump --output json`: a batch or a record.
type dumped struct {
	Kind       string `json:"kind"`
	BaseOffset int64  `json:"base_offset"`
	LastOffset int64  `json:"last_offset"`
	Epoch      int32  `json:"leader_epoch"`
	CRC        string `json:"crc"`
	Offset     int64  `json:"offset"`
	Value      string `json:"value"`
}

// replica is what the files of one node have of a partition: its batches in order, and the
// records if they were asked for.
type replica struct {
	batches []string // "base-last epoch crc"
	records map[int64]string
}

// dump reads the replica in a directory of a node that is stopped.
func dump(dir string, records bool) (r replica, err error) {
	bin, err := harness.Binary()
	if err != nil {
		return r, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		return r, fmt.Errorf("%s has no segments: %w", dir, err)
	}
	args := []string{"log", "dump", "--output", "json", "--raw"}
	if !records {
		args = append(args, "--batches")
	}
	cmd := exec.Command(bin, append(args, files...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return r, err
	}
	r, err = readDump(out)
	if failed := cmd.Wait(); failed != nil {
		return r, fmt.Errorf("dump %s: %w: %s", dir, failed, said.String())
	}
	return r, err
}

func readDump(in io.Reader) (r replica, err error) {
	r.records = map[int64]string{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var d dumped
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return r, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		switch d.Kind {
		case "batch":
			r.batches = append(r.batches, fmt.Sprintf("%d-%d epoch %d crc %s", d.BaseOffset, d.LastOffset, d.Epoch, d.CRC))
		case "record":
			r.records[d.Offset] = d.Value
		}
	}
	return r, lines.Err()
}

// compareReplicas holds the same partition on several nodes side by side.
func compareReplicas(partition string, byNode map[int]replica) (faults []string) {
	ids := slices.Sorted(maps.Keys(byNode))
	first := byNode[ids[0]].batches
	for _, id := range ids[1:] {
		other := byNode[id].batches
		for i := range max(len(first), len(other)) {
			if a, b := at(first, i), at(other, i); a != b {
				faults = append(faults, fmt.Sprintf("replicas differ: batch %d of %s is %s on node %d and %s on node %d", i, partition, a, ids[0], b, id))
				break
			}
		}
	}
	return faults
}

func at(batches []string, i int) string {
	if i < len(batches) {
		return batches[i]
	}
	return "missing"
}

// compareServed holds what brokers have served beside what the files have.
func compareServed(partition int32, r replica, s served) (faults []string) {
	count := 0
	for place, value := range s {
		if place.partition != partition {
			continue
		}
		count++
		if got, ok := r.records[place.offset]; !ok || got != value {
			faults = append(faults, fmt.Sprintf("files differ: %.60q was served at %v, %.60q is in the file", value, place, got))
		}
	}
	if count != len(r.records) {
		faults = append(faults, fmt.Sprintf("files differ: %d records of partition %d were served, the files have %d", count, partition, len(r.records)))
	}
	return faults
}

// replicas compares the files of nodes, which are stopped, with each other and with what was
// served of each topic. Placement says which nodes have a partition.
func (c *cluster) replicas(all map[string]served, placement map[string][]int32) (faults []string, compared int) {
	c.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(placement)) {
		topic, partition := splitPartition(name)
		s, ofTopic := all[topic]
		if !ofTopic && topic != "__consumer_offsets" {
			continue
		}
		byNode := map[int]replica{}
		for _, id := range placement[name] {
			n := c.node(int(id))
			if _, err := os.Stat(filepath.Join(n.data, name)); errors.Is(err, fs.ErrNotExist) && !ofTopic {
				continue // of a partition that nobody has written to
			}
			r, err := dump(filepath.Join(n.data, name), ofTopic)
			if err != nil {
				faults = append(faults, fmt.Sprintf("node %d: %v", n.id, err))
				continue
			}
			byNode[n.id] = r
			compared++
			if ofTopic {
				for _, fault := range compareServed(partition, r, s) {
					faults = append(faults, fmt.Sprintf("%s on node %d: %s", name, n.id, fault))
				}
			}
		}
		if len(byNode) > 0 {
			faults = append(faults, compareReplicas(name, byNode)...)
		}
	}
	return faults, compared
}

func splitPartition(name string) (topic string, partition int32) {
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil {
		return name, -1
	}
	return name[:i], int32(n)
}
