package broker

import "math"

const (
	// ownDescriptors is what a broker has open besides connections of clients and files of
	// partitions: the metadata log, listeners, directories, connections of the admin listener.
	ownDescriptors = 64
	// maxIdleFiles is how many files of partitions stay open while nobody uses them.
	maxIdleFiles = 4096
	// fewDescriptors is the limit below which the log says so at start.
	fewDescriptors = 4096
)

// descriptors shares out what the process may have open (D11). Connections must never
// take the descriptors that the logs need: a partition's file that cannot be opened fails
// requests of clients who did nothing wrong.
type descriptors struct {
	idleFiles   int // of partitions, kept open while nobody uses them; 0: the pool's default
	files       int // of partitions, in use and not yet flushed ones included; 0: no bound
	connections int // of all clients; 0: no bound
}

// shareDescriptors divides a limit, of which 0 says that there is none. A flush opens a
// second file of each new partition, so as much again is set aside for that.
func shareDescriptors(limit uint64) descriptors {
	if limit == 0 || limit > math.MaxInt32 {
		return descriptors{}
	}
	n := int(limit)
	d := descriptors{files: max(n/8, min(n/4, maxIdleFiles), 1)}
	d.idleFiles = min(d.files, maxIdleFiles)
	d.connections = max(n-min(ownDescriptors, n/4)-2*d.files, 1)
	return d
}

// bound is max.connections within what the descriptors allow; 0 stands for no bound.
func (d descriptors) bound(maxConnections int) int {
	if d.connections == 0 || maxConnections > 0 && maxConnections < d.connections {
		return maxConnections
	}
	return d.connections
}

// shareDescriptors notes the shares, and says so where they are small.
func (b *Broker) shareDescriptors() {
	b.descriptors = shareDescriptors(b.env.OpenFiles)
	if limit := b.env.OpenFiles; limit > 0 && limit < fewDescriptors {
		b.log.Warn("the limit of open files is low (ulimit -n), so connections are bounded by it",
			"limit", limit, "max.connections", b.descriptors.bound(unbounded(b.cfg.Network.MaxConnections)))
	}
}
