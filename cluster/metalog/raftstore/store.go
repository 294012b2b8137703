package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Store is where one node keeps Raft's log, term and vote. After an error other than
// raft.ErrLogNotFound, which GetLog answers for an entry that does not exist, the store
// should be given up: the medium has failed.
type Store interface {
	raft.LogStore
	raft.MonotonicLogStore
	raft.StableStore
	// Compact gives back room after entries were deleted. It may use that many bytes while
	// it works; if they are not enough it does nothing.
	Compact(room uint64) error
	Close() error
}

// ErrNotContiguous is wrapped by StoreLogs when its entries do not continue the log.
var ErrNotContiguous = errors.New("raft log would have a gap")

// checkAppend refuses entries that leave a gap among themselves or after last; last is 0
// if the log is empty. Entries may replace a stale tail.
func checkAppend(last uint64, logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	first := logs[0].Index
	if first == 0 || last > 0 && first > last+1 {
		return fmt.Errorf("store entry %d after %d: %w", first, last, ErrNotContiguous)
	}
	for i, l := range logs {
		if l.Index != first+uint64(i) {
			return fmt.Errorf("store entry %d where %d belongs: %w", l.Index, first+uint64(i), ErrNotContiguous)
		}
	}
	return nil
}

// bounds is the range of indexes that a store holds, 0 and 0 if it is empty.
type bounds struct {
	mu          sync.Mutex
	first, last uint64
}

func (b *bounds) get() (first, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first, b.last
}

// appended notes that the log now ends with first..last.
func (b *bounds) appended(first, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == 0 || first < b.first {
		b.first = first
	}
	b.last = last
}

// deleted notes that the entries lo..hi are gone; they are a prefix, a suffix or all.
func (b *bounds) deleted(lo, hi uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case lo <= b.first && hi >= b.last:
		b.first, b.last = 0, 0
	case lo <= b.first:
		b.first = max(b.first, hi+1)
	default:
		b.last = min(b.last, lo-1)
	}
}

// clip limits lo..hi to what the store holds. It reports false if nothing is left, and an
// error if the range lies in the middle: a deletion would leave a gap.
func (b *bounds) clip(lo, hi uint64) (uint64, uint64, bool, error) {
	first, last := b.get()
	if first == 0 || lo > hi || hi < first || lo > last {
		return 0, 0, false, nil
	}
	if lo > first && hi < last {
		return 0, 0, false, fmt.Errorf("delete entries %d to %d of %d to %d: %w", lo, hi, first, last, ErrNotContiguous)
	}
	return max(lo, first), min(hi, last), true, nil
}

// An entry's bytes:
//
//	 0        1      2       10      18          26            30
//	┌────────┬──────┬───────┬───────┬───────────┬─────────────┬──────┬────────────┐
//	│format=1│ type │ index │ term  │ appended  │ data length │ data │ extensions │
//	└────────┴──────┴───────┴───────┴───────────┴─────────────┴──────┴────────────┘
//
// Numbers are big-endian; appended is in nanoseconds since 1970, 0 if unknown.
const (
	entryFormat     = 1
	entryHeaderSize = 30
)

func appendLog(dst []byte, l *raft.Log) []byte {
	var appended int64
	if !l.AppendedAt.IsZero() {
		appended = l.AppendedAt.UnixNano()
	}
	dst = append(dst, entryFormat, byte(l.Type))
	dst = binary.BigEndian.AppendUint64(dst, l.Index)
	dst = binary.BigEndian.AppendUint64(dst, l.Term)
	dst = binary.BigEndian.AppendUint64(dst, uint64(appended))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(l.Data)))
	dst = append(dst, l.Data...)
	return append(dst, l.Extensions...)
}

// parseLog reads an entry; the result aliases b.
func parseLog(b []byte, l *raft.Log) error {
	if len(b) < entryHeaderSize || b[0] != entryFormat {
		return fmt.Errorf("raft log entry of %d bytes is damaged or of a newer format", len(b))
	}
	size := uint64(binary.BigEndian.Uint32(b[26:]))
	if uint64(len(b)) < entryHeaderSize+size {
		return fmt.Errorf("raft log entry of %d bytes claims %d", len(b), entryHeaderSize+size)
	}
	data := b[entryHeaderSize : entryHeaderSize+size : entryHeaderSize+size]
	*l = raft.Log{
		Type:  raft.LogType(b[1]),
		Index: binary.BigEndian.Uint64(b[2:]),
		Term:  binary.BigEndian.Uint64(b[10:]),
	}
	if appended := int64(binary.BigEndian.Uint64(b[18:])); appended != 0 {
		l.AppendedAt = time.Unix(0, appended)
	}
	// Raft tells "no data" from "empty data" nowhere, but its tests compare.
	if size > 0 {
		l.Data = data
	}
	if rest := b[entryHeaderSize+size:]; len(rest) > 0 {
		l.Extensions = rest
	}
	return nil
}

// The keys under which raft keeps its term and vote.
var (
	keyVoteTerm      = []byte("LastVoteTerm")
	keyVoteCandidate = []byte("LastVoteCand")
)

// pendingVote holds the term of a vote until its candidate is known: see the package
// comment.
type pendingVote struct {
	mu   sync.Mutex
	term []byte // nil: none
}

// set is called for each key that is to be written. It gives the pairs to write now.
func (p *pendingVote) set(key, value []byte) map[string][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch string(key) {
	case string(keyVoteTerm):
		p.term = value
		return nil
	case string(keyVoteCandidate):
		pairs := map[string][]byte{string(key): value}
		if p.term != nil {
			pairs[string(keyVoteTerm)] = p.term
			p.term = nil
		}
		return pairs
	default:
		return map[string][]byte{string(key): value}
	}
}

func uint64Value(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func parseUint64(b []byte) (uint64, error) {
	switch len(b) {
	case 0:
		return 0, nil
	case 8:
		return binary.BigEndian.Uint64(b), nil
	default:
		return 0, fmt.Errorf("number of %d bytes", len(b))
	}
}
