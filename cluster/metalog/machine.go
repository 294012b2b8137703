package metalog

import (
	"errors"
	"fmt"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// machine is the state machine of the log: from committed entries to images. It is a pure
// function of the entries, so it is the same on every node after the same entry.
//
// Which entries count (D17): an entry carries the term in which it was computed and its
// number within that term. It is dropped
//
//	A. if its term is not the Raft term in which it was appended: its author lost the
//	   leadership and regained it, and what it knew when it computed the entry is stale;
//	B. if its number is not the next of its term: an entry before it failed, and it was
//	   computed as if that one had succeeded;
//	C. if its records do not fit the image: a mistake of the author, which must not
//	   stop every node for ever. The number stays free, so what follows is dropped by B.
//
// A barrier asks which number is next. It also ends a transaction that was left open.
type machine struct {
	image  *metadata.Image
	term   Term   // of the last entry that counted
	number uint64 // of the last entry that counted, within term

	lineage uuid.UUID // see metadata.Snapshot

	open *metadata.Delta // a transaction (D25) whose end has not come; nil: none
}

func newMachine() *machine { return &machine{image: metadata.Empty()} }

// errDropped is wrapped by the outcome of an entry that did not count.
var errDropped = errors.New("metadata entry was dropped")

// errUnknown is the outcome of an entry that this code cannot apply: the node must stop.
type errUnknown struct{ error }

// apply takes the entry at pos. The delta leads from the image before to the one after,
// also if the entry was dropped: then only the position moved.
func (m *machine) apply(pos metadata.Position, e metadata.Entry) (*metadata.Delta, error) {
	err := m.check(pos, e)
	if err == nil {
		err = m.replay(pos, e)
	}
	var unknown errUnknown
	if errors.As(err, &unknown) {
		return nil, err
	}
	delta := m.takeDelta(pos, err == nil && !e.Barrier)
	m.image = delta.Next()
	return delta, err
}

// check decides cases A and B.
func (m *machine) check(pos metadata.Position, e metadata.Entry) error {
	switch {
	case e.Term != pos.Term:
		return fmt.Errorf("computed in term %d, appended in term %d: %w", e.Term, pos.Term, errDropped)
	case e.Barrier:
		return nil
	case e.Number != m.next(e.Term):
		return fmt.Errorf("entry %d of term %d where %d is next: %w", e.Number, e.Term, m.next(e.Term), errDropped)
	default:
		return nil
	}
}

// next is the number of the next entry of a term.
func (m *machine) next(term Term) uint64 {
	if term != m.term {
		return 1
	}
	return m.number + 1
}

func (m *machine) replay(pos metadata.Position, e metadata.Entry) error {
	if e.Barrier || e.Term != m.term {
		m.open = nil // its author will not come back to it
	}
	if e.Barrier {
		if e.Term != m.term {
			m.term, m.number = e.Term, 0
		}
		return nil
	}
	if m.open == nil {
		m.open = metadata.NewDelta(m.image)
	}
	if err := m.open.ReplayAll(e.Records...); err != nil {
		m.open = nil
		if errors.Is(err, metadata.ErrUnsupported) {
			return errUnknown{err}
		}
		return fmt.Errorf("%w: %w", errDropped, err)
	}
	m.term, m.number = e.Term, e.Number
	return nil
}

// takeDelta gives what the entry at pos did to the image.
func (m *machine) takeDelta(pos metadata.Position, replayed bool) *metadata.Delta {
	if !replayed || m.open.InTransaction() {
		return metadata.Unchanged(m.image, pos)
	}
	delta := m.open
	delta.Image(pos)
	m.open = nil
	return delta
}

// snapshot gives the state to save; there is none in the middle of a transaction.
func (m *machine) snapshot() (metadata.Snapshot, error) {
	if m.open != nil {
		return metadata.Snapshot{}, errors.New("a metadata transaction is open, snapshot later")
	}
	return metadata.Snapshot{Image: m.image, EntryTerm: m.term, EntryNumber: m.number, Lineage: m.lineage}, nil
}

// restore replaces the state. The delta leads from the image before to the one after.
func (m *machine) restore(s metadata.Snapshot) *metadata.Delta {
	delta := metadata.Between(m.image, s.Image)
	*m = machine{image: s.Image, term: s.EntryTerm, number: s.EntryNumber, lineage: s.Lineage}
	return delta
}
