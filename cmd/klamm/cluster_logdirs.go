package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type logDir struct {
	Path     string  `json:"path"`
	Error    *string `json:"error"`
	Replicas int     `json:"replicas"`
	Bytes    int64   `json:"bytes"`
}

// addLogDirs asks each active broker for its log directories, all at once. Without logs the
// answers are short however many replicas there are, and a broker that does not answer is only
// noted.
func (s *clusterStatus) addLogDirs(ctx context.Context, client *kgo.Client, logs bool) error {
	var asking sync.WaitGroup
	failed := make([]error, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Replicas == nil || n.State != "active" {
			continue
		}
		asking.Go(func() {
			dirs, err := askLogDirs(ctx, client, n.ID, logs)
			if err != nil {
				failed[i] = fmt.Errorf("log directories of node %d: %w", n.ID, err)
				return
			}
			n.setLogDirs(dirs, logs)
		})
	}
	asking.Wait()
	if !logs {
		return nil
	}
	return errors.Join(failed...)
}

func (n *nodeStatus) setLogDirs(dirs []logDir, logs bool) {
	n.OfflineLogDirs = []string{}
	for _, d := range dirs {
		if d.Error != nil && d.Path != "" {
			n.OfflineLogDirs = append(n.OfflineLogDirs, d.Path)
		}
	}
	if logs {
		n.LogDirs = dirs
	}
}

// askLogDirs takes what a broker says, within askPatience unless all of its logs are asked for.
func askLogDirs(ctx context.Context, client *kgo.Client, broker int32, logs bool) ([]logDir, error) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	if !logs {
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{} // none; null are all
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askPatience)
		defer cancel()
	}
	resp, err := req.RequestWith(ctx, client.Broker(int(broker)))
	if err != nil {
		return nil, err
	}
	if resp.ErrorCode != 0 {
		return []logDir{{Error: errorText(resp.ErrorCode)}}, nil
	}
	dirs := make([]logDir, 0, len(resp.Dirs))
	for _, dir := range resp.Dirs {
		d := logDir{Path: dir.Dir, Error: errorText(dir.ErrorCode)}
		for _, topic := range dir.Topics {
			d.Replicas += len(topic.Partitions)
			for _, p := range topic.Partitions {
				d.Bytes += p.Size
			}
		}
		dirs = append(dirs, d)
	}
	return dirs, nil
}

// errorText is the name and meaning of an error, nil if it is none.
func errorText(code int16) *string {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}

func (s *clusterStatus) printLogDirs(out io.Writer) error {
	fmt.Fprintln(out)
	table, err := newTable(out, "text", "NODE", "LOG DIR", "STATE", "REPLICAS", "BYTES")
	if err != nil {
		return err
	}
	table.showHead()
	for _, n := range s.Nodes {
		for _, d := range n.LogDirs {
			state := "online"
			if d.Error != nil {
				state, _, _ = strings.Cut(*d.Error, ":")
			}
			if err := table.row(n.ID, cmp.Or(d.Path, "-"), state, d.Replicas, d.Bytes); err != nil {
				return err
			}
		}
	}
	return table.flush()
}

// diskTrouble says in words what is wrong with the disks of active brokers, and what to do.
func (s *clusterStatus) diskTrouble() (lines []string) {
	for _, n := range s.Nodes {
		if n.State != "active" || n.OfflineReplicas == nil {
			continue
		}
		out := fmt.Sprintf("out of service: %d of its %d replicas", *n.OfflineReplicas, *n.Replicas)
		switch dirs := n.OfflineLogDirs; {
		case len(dirs) > 0:
			lines = append(lines, fmt.Sprintf("node %d: offline: log directory %s; %s", n.ID, strings.Join(dirs, ", "), out),
				"  bring the disk back, or mount an empty one at the same path, and restart the node; its log says what failed")
		case dirs != nil && *n.OfflineReplicas > 0: // else it may have been fenced meanwhile
			lines = append(lines, fmt.Sprintf("node %d: %s, of a log directory that it does not have any more", n.ID, out),
				"  bring that disk back; what has no other replica is without a leader until then, and is given up by deleting its topic")
		}
		if n.OfflineLogDirs == nil {
			lines = append(lines, fmt.Sprintf("node %d: has not told of its log directories; is it paused, or not to be reached from here?", n.ID))
		}
	}
	return lines
}
