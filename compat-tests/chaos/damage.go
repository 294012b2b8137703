package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Damage of files, while their node is away: what it has lost or has wrong, of what its disk was
// sure to have, must be found by the node itself and fetched again from the others. Whoever
// reads meanwhile, or follows it, must not be led over a hole, nor be served anything else than
// what was written: that is what the readers of the load are for.
//
// All but flipped bits are found at the start. Those are found when the batch is read, so the
// whole partition is read from the node, as a consumer may that asks a follower.

// wound is damage that was done to a replica.
type wound struct {
	partition string // as its directory is named
	what      string
	strays    int // that the node had set aside of that partition before
}

// ways to hurt a replica. They report what they did, "" if there was nothing to do it to.
func hurts() map[string]func(rng *rand.Rand, v victim) (string, error) {
	return map[string]func(rng *rand.Rand, v victim) (string, error){
		"bit": flipBit, "end": cutEnd, "empty": cutAll, "segment": removeSegment, "directory": removeDirectory, "indexes": removeIndexes,
	}
}

// victim is a replica of a node that is stopped.
type victim struct {
	dir   string
	logs  []string // files of segments that may be damaged: the disk has all of them
	first bool     // the first of them may go: it was noted that it is there
}

// damageNode stops or kills a node, and hurts some replicas in each of the ways.
func damageNode(c *cluster, s strike) {
	rng := rand.New(rand.NewPCG(s.dice, 0))
	n := c.node(s.node)
	clean := rng.IntN(2) == 0
	if clean {
		c.stop(n)
	} else {
		c.kill(n)
	}
	dirs, err := filepath.Glob(filepath.Join(n.data, "*-[0-9]"))
	if err != nil {
		c.t.Fatal(err)
	}
	rng.Shuffle(len(dirs), func(i, j int) { dirs[i], dirs[j] = dirs[j], dirs[i] })
	for _, how := range slices.Sorted(maps.Keys(hurts())) {
		dirs = c.hurt(n, how, rng, dirs, clean)
	}
}

// hurt takes the first replica that can be hurt in some way, and returns the others.
func (c *cluster) hurt(n *server, how string, rng *rand.Rand, dirs []string, clean bool) []string {
	for i, dir := range dirs {
		v, err := look(dir, clean)
		if err != nil {
			c.t.Fatal(err)
		}
		name := filepath.Base(dir)
		w := wound{partition: name, strays: len(n.strays(name))}
		if len(v.logs) > 0 {
			w.what, err = hurts()[how](rng, v)
		}
		if err != nil {
			c.t.Fatalf("damage %s: %v", dir, err)
		}
		if w.what != "" {
			c.t.Logf("node %d, %s: %s", n.id, name, w.what)
			c.wounds = append(c.wounds, w)
			return slices.Delete(dirs, i, i+1)
		}
	}
	return dirs
}

// look finds what may be damaged. After a kill the last segment may have what nobody was sure
// of, and the first one may have been deleted unless it is not the first one for long.
func look(dir string, clean bool) (victim, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		return victim{dir: dir}, err
	}
	slices.Sort(logs)
	if clean {
		return victim{dir: dir, logs: nonEmpty(logs), first: true}, nil
	}
	if len(logs) < 3 {
		return victim{dir: dir}, nil
	}
	return victim{dir: dir, logs: logs[:len(logs)-2]}, nil
}

func nonEmpty(files []string) (list []string) {
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() > 0 {
			list = append(list, f)
		}
	}
	return list
}

func (v victim) one(rng *rand.Rand) string { return v.logs[rng.IntN(len(v.logs))] }

// flipBit flips one that a checksum covers.
func flipBit(rng *rand.Rand, v victim) (string, error) {
	const head, crcAt = 61, 17
	name := v.one(rng)
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	wanted := rng.IntN(len(data))
	for at := 0; at+head <= len(data); {
		end := at + 12 + int(binary.BigEndian.Uint32(data[at+8:]))
		if wanted < end {
			at = max(wanted, at+crcAt)
			data[at] ^= 1 << rng.IntN(8)
			return fmt.Sprintf("a bit flips at byte %d of %s", at, filepath.Base(name)), os.WriteFile(name, data, 0o644)
		}
		at = end
	}
	return "", nil
}

func cutEnd(rng *rand.Rand, v victim) (string, error) {
	name := v.one(rng)
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	size := 1 + rng.Int64N(info.Size()-1)
	return fmt.Sprintf("%s has %d bytes instead of %d", filepath.Base(name), size, info.Size()), os.Truncate(name, size)
}

func cutAll(rng *rand.Rand, v victim) (string, error) {
	name := v.one(rng)
	return filepath.Base(name) + " is empty", os.Truncate(name, 0)
}

func removeSegment(rng *rand.Rand, v victim) (string, error) {
	logs := v.logs
	if !v.first {
		logs = logs[1:]
	}
	if len(logs) == 0 {
		return "", nil
	}
	name := logs[rng.IntN(len(logs))]
	return filepath.Base(name) + " is gone", os.Remove(name)
}

func removeDirectory(_ *rand.Rand, v victim) (string, error) {
	return "the directory is gone", os.RemoveAll(v.dir)
}

// removeIndexes is no damage.
func removeIndexes(rng *rand.Rand, v victim) (string, error) {
	base := strings.TrimSuffix(v.one(rng), ".log")
	return filepath.Base(base) + " has no indexes", errors.Join(os.Remove(base+".index"), os.Remove(base+".timeindex"))
}

func (n *server) strays(partition string) []string {
	found, err := filepath.Glob(filepath.Join(n.data, partition+".*-stray"))
	if err != nil {
		return nil
	}
	return found
}

// startDamaged starts the node, and waits until it has found and mended everything.
func startDamaged(c *cluster, s strike) {
	n := c.node(s.node)
	c.start(n)
	target := n.clients.target
	client, err := kgo.NewClient(kgo.SeedBrokers(n.clients.addr), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, target)
	}))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(healBound); len(c.wounds) > 0; <-look.C {
		if time.Now().After(deadline) {
			c.t.Fatalf("node %d has not mended %+v", n.id, c.wounds)
		}
		c.wounds = slices.DeleteFunc(c.wounds, func(w wound) bool { return n.healed(w, client) })
	}
}

// healed reads a partition from the node, to its end, and tells whether it has been fetched
// again, or could be read if nothing was to be mended.
func (n *server) healed(w wound, client *kgo.Client) bool {
	err := readThrough(client, w.partition)
	dir, statErr := os.Stat(filepath.Join(n.data, w.partition))
	begunAnew := len(n.strays(w.partition)) > w.strays
	switch {
	case err != nil || statErr != nil || !dir.IsDir():
		return false
	case strings.Contains(w.what, "indexes"), strings.Contains(w.what, "directory"):
		return true
	}
	return begunAnew
}

// fixedVersion keeps a client from choosing a version in which topics have no names.
type fixedVersion struct {
	kmsg.Request
	max int16
}

func (f fixedVersion) MaxVersion() int16 { return f.max }

// readThrough reads a replica, whoever leads, from its log start to where there is no more.
func readThrough(client *kgo.Client, name string) error {
	topic, partition := splitPartition(name)
	for next := int64(0); ; {
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID, req.SessionEpoch, req.MaxBytes = -1, -1, 4<<20
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = partition, next, 4<<20
		req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		reply, err := client.SeedBrokers()[0].Request(ctx, fixedVersion{req, 12})
		cancel()
		if err != nil {
			return err
		}
		answer := reply.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return err
		}
		after := behind(answer.RecordBatches)
		if after < 0 {
			return nil
		}
		next = after
	}
}

// behind is the offset after the last whole batch, -1 if there is none.
func behind(b []byte) int64 {
	const head = 61
	next := int64(-1)
	for len(b) >= head {
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			break
		}
		next = int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[23:])) + 1
		b = b[size:]
	}
	return next
}
