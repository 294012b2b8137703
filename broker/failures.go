package broker

import (
	"slices"
	"sync"

	"github.com/klamm-mq/klamm/cluster/node"
	"github.com/klamm-mq/klamm/cluster/replica"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// failures passes on to the node which directories and replicas have failed, those
// included that did so before there was a node: opening the logs may take long.
type failures struct {
	mu       sync.Mutex
	node     *node.Node // nil before reportTo
	dirs     []uuid.UUID
	replicas []replica.TopicIDPartition
}

func (f *failures) directory(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node != nil {
		f.node.ReportOfflineDir(id)
		return
	}
	f.dirs = append(f.dirs, id)
}

func (f *failures) replica(id replica.TopicIDPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node != nil {
		f.node.ReportFailedReplica(id.TopicID, id.Partition)
		return
	}
	f.replicas = append(f.replicas, id)
}

// repaired ends the reports of a replica.
func (f *failures) repaired(id replica.TopicIDPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = slices.DeleteFunc(f.replicas, func(r replica.TopicIDPartition) bool { return r == id })
	if f.node != nil {
		f.node.ClearFailedReplica(id.TopicID, id.Partition)
	}
}

// reportTo hands everything to a node that has not started yet, and all that follows.
func (f *failures) reportTo(n *node.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.node = n
	for _, id := range f.dirs {
		n.ReportOfflineDir(id)
	}
	for _, id := range f.replicas {
		n.ReportFailedReplica(id.TopicID, id.Partition)
	}
	f.dirs, f.replicas = nil, nil
}

// assignments passes on to the node in which directories replicas are, those included that
// were found before there was a node.
type assignments struct {
	mu    sync.Mutex
	node  *node.Node // nil before reportTo
	early map[replica.TopicIDPartition]uuid.UUID
}

func (a *assignments) assign(id replica.TopicIDPartition, dir uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.node != nil:
		a.node.AssignDirectory(id, dir)
	case a.early == nil:
		a.early = map[replica.TopicIDPartition]uuid.UUID{id: dir}
	default:
		a.early[id] = dir
	}
}

// reportTo hands everything to a node that has not started yet, and all that follows.
func (a *assignments) reportTo(n *node.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node = n
	for id, dir := range a.early {
		n.AssignDirectory(id, dir)
	}
	a.early = nil
}

// noteStart notes what could not be opened at start.
func (f *failures) noteStart(m *replica.Manager) {
	for _, id := range m.OfflineDirs() {
		f.directory(id)
	}
	for _, id := range m.DamagedReplicas() {
		f.replica(id)
	}
}

// online is the directories of ids of which no failure is known.
func (f *failures) online(ids []uuid.UUID) []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return slices.Contains(f.dirs, id) })
}
