package metalog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Term is a Raft term: the number of a leadership.
type Term = uint64

// MaxEntryBytes bounds one entry of the log (D25). A larger decision is split by its
// author into entries that are each valid alone, or bracketed with
// metadata.BeginTransactionRecord and EndTransactionRecord.
const MaxEntryBytes = 1 << 20

// Errors that Propose and Barrier wrap, beside kafkaerr.NotController: that one means that
// the entry was dropped, or that nobody knows; then nothing may be proposed until a
// Barrier has passed and whatever was computed from pending records is computed anew.
var (
	// ErrFull: the disk has no room for metadata; nothing was written. Leadership stays
	// and the next proposal may succeed.
	ErrFull = kafkaerr.New(kafkaerr.KafkaStorageError, "no room on the disk of the metadata log")
	// ErrTooLarge: the entry would be larger than MaxEntryBytes; nothing was written.
	ErrTooLarge = fmt.Errorf("metadata entry larger than %d bytes", MaxEntryBytes)
	// ErrClosed: the log was closed.
	ErrClosed = kafkaerr.New(kafkaerr.NotController, "metadata log is closed")
)

// Stores says where Raft keeps its log, terms and votes.
type Stores int

// Values of Stores.
const (
	BadgerStores Stores = iota // Badger in Options.Dir, on the operating system's files
	FileStores                 // plain files in Options.Dir on Options.FS
)

// StreamLayer carries Raft between nodes: it accepts connections that the listener
// recognised by their preface (D16), and gives dialled ones that have sent it.
type StreamLayer interface {
	net.Listener
	// Dial connects to the node that has this server id (node id/directory id) at address;
	// one that has another id is to refuse.
	Dial(id, address string, timeout time.Duration) (net.Conn, error)
}

// Voter is one member of the quorum.
type Voter struct {
	NodeID      int32
	DirectoryID uuid.UUID
	Address     string // as the StreamLayer dials it
}

// Publisher is told of every new image, on one goroutine, in the order of
// Options.Publishers. A publisher that is slow sees several changes in one delta.
type Publisher interface {
	Name() string
	// OnMetadataUpdate is given the change since the last call, from Empty at first.
	// An unchanged image at a higher position is published, too.
	OnMetadataUpdate(delta *metadata.Delta, next *metadata.Image)
}

// Options configure a Log. NodeID, DirectoryID and Dir are required.
type Options struct {
	NodeID      int32
	DirectoryID uuid.UUID // of the disk; with NodeID the identity as a voter (D19), unless Joined
	ClusterID   string    // refuse the log of another cluster; "": not known yet

	// Joined tells that the disk has belonged to a cluster. Should the log be empty all the
	// same, it was lost, and what this node has voted with it: see identify.
	Joined bool
	// IDs gives the id that it then gets; required if Joined.
	IDs io.Reader

	Dir    string // directory of the metadata log; created
	FS     vfs.FS // for snapshots, ballast and FileStores; nil: vfs.OS()
	Stores Stores

	// Stream is nil for a node that nobody else talks to. Close closes it.
	Stream StreamLayer
	// Address is this node's address as other voters dial it; "": Stream.Addr().
	Address string

	// Refuses tells whether nobody listens any more at an address of a node, so that its
	// process has ended. nil: only by its silence is it known that a leader is gone.
	Refuses func(ctx context.Context, address string) bool

	// Voters are configured, if there are several. A log that knows fewer than half of them is
	// that of another cluster. They are sought where they are configured to be before they are
	// where the log knows them: only a leader notes that one has moved, and if all of them move
	// at once nobody leads.
	Voters []Peer

	// BootstrapSelf makes an empty log a cluster of this node alone (D8: no quorum key
	// is set). Else an empty log waits for BootstrapVoters, or to be added by a leader.
	BootstrapSelf bool
	// MayBootstrap is asked before that; its error refuses the start. nil: always.
	MayBootstrap func() error
	// Bootstrap gives the first records of a new cluster. The first leader proposes them
	// within its first Barrier. They begin with a metadata.BootstrapRecord.
	Bootstrap []metadata.Record

	Timing Timing // zero: TimingForOne with BootstrapSelf, else TimingForQuorum

	// Publishers see images from the moment on when this node's metadata is known to be
	// no older than what the cluster had when the process started: see StartPublishing.
	Publishers []Publisher

	// PublishWhenTold: a Barrier starts no publishing, since this node has to register
	// before its image says what it may do.
	PublishWhenTold bool

	// Reserve is the free space that metadata wants to keep; zero: DefaultReserve, or less
	// for FileStores. Space reads it; nil: FS.Space of Dir.
	Reserve Reserve
	Space   func() (vfs.Space, error)

	// Fatal is called at most once, on a goroutine of its own, when this node can take no
	// further part: a store failed, not even a vote finds room, or a newer release wrote
	// the log. The process should end with the error. Until Close the log answers errors.
	Fatal func(error)

	Logger     *slog.Logger          // nil: discard
	Registerer prometheus.Registerer // nil: no metrics

	// Of tests: snapshots after few entries, and a look at each applied image.
	tune    func(*raft.Config)
	applied func(*metadata.Image)
}

// Timing is Raft's sense of time (D18).
type Timing struct {
	HeartbeatTimeout time.Duration // a follower waits so long for the leader, up to twice
	ElectionTimeout  time.Duration // a candidate waits so long for votes, up to twice
	LeaderLease      time.Duration // a leader without quorum steps down after it
	CommitTimeout    time.Duration // who missed the news of a commit gets it within that, up to twice
	EnqueueTimeout   time.Duration // a proposal waits so long for Raft to take it
}

// TimingForQuorum takes a leader for gone after one and a half seconds of silence, up to three
// times as many, in which a machine that is busy with something else still gets round to
// answer. On two cores with thirty processes that want one, three nodes had ten elections a
// minute without a cause at 200 ms, two at a second. A process that ends does not wait for it
// (see Options.Refuses): another one leads within 300 ms.
func TimingForQuorum() Timing {
	return Timing{
		HeartbeatTimeout: 1500 * time.Millisecond,
		ElectionTimeout:  1500 * time.Millisecond,
		LeaderLease:      1500 * time.Millisecond,
		CommitTimeout:    375 * time.Millisecond,
		EnqueueTimeout:   10 * time.Second,
	}
}

// shortestTimeout is the least that a node can keep to.
const shortestTimeout = 20 * time.Millisecond

// WithTimeouts is t with what controller.quorum.fetch.timeout.ms (how long a follower waits
// for its leader) and controller.quorum.election.timeout.ms (a candidate for votes) say;
// zero: not set. Raft wants a candidate to wait no shorter than a follower. A leader's lease is
// as long as a follower waits at least, which is the most that Raft allows: it looks at once
// when it has stood still, where a follower looks when its timer ends. That an old leader may
// believe in itself for a moment longer does no harm, since it commits nothing.
func (t Timing) WithTimeouts(fetch, election time.Duration) Timing {
	if fetch > 0 {
		t.HeartbeatTimeout = max(fetch, shortestTimeout)
		t.LeaderLease, t.CommitTimeout = t.HeartbeatTimeout, t.HeartbeatTimeout/4
	}
	if election > 0 {
		t.ElectionTimeout = election
	}
	t.ElectionTimeout = max(t.ElectionTimeout, t.HeartbeatTimeout)
	return t
}

// TimingForOne is for the only voter: it elects itself at once whatever the timeouts, and
// long ones cost no CPU when idle.
func TimingForOne() Timing {
	return Timing{
		HeartbeatTimeout: time.Second,
		ElectionTimeout:  time.Second,
		LeaderLease:      time.Second,
		CommitTimeout:    50 * time.Millisecond,
		EnqueueTimeout:   10 * time.Second,
	}
}

// Reserve is the free space, in bytes, at which metadata changes its behaviour (§6,
// "Metadata on a full disk"): KeepFree > Floor.
type Reserve struct {
	// KeepFree: with less free, the ballast file is removed first; if that is not enough,
	// proposals are refused. Halfway to Floor, followers store no entries either.
	KeepFree uint64
	// Floor: with less free, terms and votes are not written either, and the node ends.
	Floor uint64
	// Ballast is the size of the ballast file, really written; it is written again when
	// twice KeepFree (and the ballast itself) is free.
	Ballast uint64
}

// DefaultReserve fits Badger's sizes: between two looks at the disk it may start a memtable
// (4 MiB), a value-log file (4 MiB) and two tables of a compaction (4 MiB each). The ballast
// covers two memtables and two value-log files, and some changes of metadata beyond them.
func DefaultReserve() Reserve {
	return Reserve{KeepFree: 16 << 20, Floor: 8 << 20, Ballast: 24 << 20}
}

// fileReserve is for FileStores, which get an error where there is no room and need no more
// than what they are given.
func fileReserve() Reserve {
	return Reserve{KeepFree: 1 << 20, Floor: 256 << 10, Ballast: 256 << 10}
}

// Leadership tells who this node is: the leader of a term, or not the leader.
type Leadership struct {
	Leader bool
	Term   Term // of the leadership; the current one, as far as known, if not Leader
}
