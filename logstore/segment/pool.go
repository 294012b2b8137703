package segment

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of PoolOptions.
const (
	defaultMaxOpenFiles  = 1024
	defaultMaxIndexBytes = 64 << 20
)

// PoolOptions bound what all segments together keep open and in memory.
type PoolOptions struct {
	// MaxOpenFiles bounds the descriptors that could be closed; one with unflushed
	// bytes or a region in flight stays open beyond it. 0 = 1024.
	MaxOpenFiles int
	// MaxFiles bounds all descriptors: at the bound, no further file is opened, with the
	// error of a process that has no descriptor left (EMFILE). 0 = no bound.
	MaxFiles int
	// MaxIndexBytes bounds the indexes in memory; those with entries that are not in
	// their files stay beyond it, and so does the one used last. 0 = 64 MiB.
	MaxIndexBytes int64
	// Registerer gets the pool's metrics; nil = none.
	Registerer prometheus.Registerer
}

// FilePool keeps the descriptors and indexes that were used last. One is shared by all
// segments of a broker. It is safe for concurrent use.
type FilePool struct {
	maxOpen       int
	maxFiles      int
	maxIndexBytes int64
	evictions     prometheus.Counter
	buffers       buffers

	mu         sync.Mutex
	open       int   // descriptors, idle or not
	opening    int   // files that are being opened
	indexBytes int64 // of all indexes in memory
	idleFiles  ring  // open and not in use
	idleIndex  ring  // in memory and not in use
}

// NewFilePool returns an empty pool.
func NewFilePool(o PoolOptions) *FilePool {
	p := &FilePool{maxOpen: o.MaxOpenFiles, maxFiles: o.MaxFiles, maxIndexBytes: o.MaxIndexBytes}
	if p.maxOpen == 0 {
		p.maxOpen = defaultMaxOpenFiles
	}
	if p.maxIndexBytes == 0 {
		p.maxIndexBytes = defaultMaxIndexBytes
	}
	p.buffers.init()
	p.idleFiles.init()
	p.idleIndex.init()
	p.register(o.Registerer)
	return p
}

func (p *FilePool) register(r prometheus.Registerer) {
	p.evictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "klamm_segment_evictions_total",
		Help: "Descriptors and indexes of segments given up to make room for others.",
	})
	if r == nil {
		return
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	r.MustRegister(
		p.evictions,
		gauge("klamm_segment_files_open", "Log files open now.", func() float64 { return float64(p.OpenFiles()) }),
		gauge("klamm_segment_files_limit", "Log files that may stay open while nobody uses them.", func() float64 { return float64(p.maxOpen) }),
		gauge("klamm_segment_index_bytes", "Bytes of segment indexes in memory.", func() float64 { return float64(p.IndexBytes()) }),
		gauge("klamm_segment_index_bytes_limit", "Bytes of segment indexes that may stay in memory.", func() float64 { return float64(p.maxIndexBytes) }),
	)
}

// OpenFiles is the number of descriptors that segments hold now.
func (p *FilePool) OpenFiles() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// IndexBytes is the size of the indexes in memory.
func (p *FilePool) IndexBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.indexBytes
}

// park notes that a segment is not in use, if so, and makes room. Its index is not
// itself taken, however little room there is: somebody who loads an index and then locks
// it would else never see it. Called with mu held, as everything below except where it
// says otherwise.
func (p *FilePool) park(s *Segment) victims {
	p.unpark(s)
	idle := !s.file.inUse()
	if idle && s.file.open != nil {
		p.idleFiles.push(&s.file.fileNode, s)
	}
	v := p.trim()
	if idle && s.file.indexBytes > 0 {
		p.idleIndex.push(&s.file.indexNode, s)
	}
	return v
}

// unpark notes that a segment is in use.
func (p *FilePool) unpark(s *Segment) {
	s.file.fileNode.remove()
	s.file.indexNode.remove()
}

// victims are to be closed, by close, when no lock is held.
type victims struct {
	files   []*openFile
	indexes []*Segment
}

// trim takes what was not used for the longest time until the pool is within its
// bounds, or everything is in use.
func (p *FilePool) trim() (v victims) {
	for p.open > p.maxOpen && !p.idleFiles.empty() {
		s := p.idleFiles.pop()
		v.files = append(v.files, s.file.detach(p))
		p.evictions.Inc()
	}
	for p.indexBytes > p.maxIndexBytes && !p.idleIndex.empty() {
		s := p.idleIndex.pop()
		p.indexBytes -= s.file.indexBytes
		s.file.indexBytes = 0
		v.indexes = append(v.indexes, s)
		p.evictions.Inc()
	}
	return v
}

// close is called without locks.
func (v victims) close() {
	for _, f := range v.files {
		f.close()
	}
	for _, s := range v.indexes {
		s.dropIndex()
	}
}

// countIndex notes how much memory the indexes of a segment take. Called without locks.
func (p *FilePool) countIndex(s *Segment, bytes int64) {
	p.mu.Lock()
	p.setIndexBytes(s, bytes)
	v := p.park(s)
	p.mu.Unlock()
	v.close()
}

func (p *FilePool) setIndexBytes(s *Segment, bytes int64) {
	if s.file.closed {
		bytes = 0
	}
	p.indexBytes += bytes - s.file.indexBytes
	s.file.indexBytes = bytes
}

// node is a segment's place in a ring; next is nil while it is in none.
type node struct {
	prev, next *node
	s          *Segment
}

// ring is a list of segments, the one used last first.
type ring struct{ head node }

func (r *ring) init() { r.head.prev, r.head.next = &r.head, &r.head }

func (r *ring) empty() bool { return r.head.next == &r.head }

// push puts a node at the young end, wherever it was.
func (r *ring) push(n *node, s *Segment) {
	n.remove()
	n.s = s
	n.prev, n.next = &r.head, r.head.next
	n.prev.next, n.next.prev = n, n
}

// pop takes the oldest.
func (r *ring) pop() *Segment {
	n := r.head.prev
	n.remove()
	return n.s
}

func (n *node) remove() {
	if n.next == nil {
		return
	}
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
}
