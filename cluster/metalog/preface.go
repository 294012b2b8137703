package metalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/klamm-mq/klamm/protocol/uuid"
)

// Where a frame would begin, a first byte of 0x80 or more begins a preface (D16), since as
// the size of a frame it would be negative:
//
//	dialler    fb 6b 6d 01 (the last is the version), kind
//	           server id of the dialler, server id that is meant (raft), cluster id if known
//	listener   0 and, to a probe, its state, which may be followed by what later releases
//	           add; or 1 and why it refuses
//
// Texts have their length in front (2 bytes). After the answer to kind raft the connection
// is Raft's; after that to a probe it is closed.
const (
	prefaceFirst   = 0xfb
	prefaceVersion = 1

	kindRaft  = 1
	kindProbe = 2

	answerOK      = 0
	answerRefused = 1

	// maxPrefaceText bounds each text: an id, or a reason.
	maxPrefaceText = 1 << 10
	// prefaceTimeout bounds the exchange on either side.
	prefaceTimeout = 3 * time.Second
)

type preface struct {
	kind      byte
	from, to  string // server ids; to is empty in a probe
	clusterID string // "": not known yet
}

// State is what a node tells about itself before it is a member.
type State struct {
	NodeID      int32
	DirectoryID uuid.UUID
	ClusterID   string // "": none yet
	// Empty tells that it knows of no cluster: it has no metadata.
	Empty bool
	// HasPartitions tells that there are partitions on its disks although it has no
	// metadata: no new cluster may begin on top of them.
	HasPartitions bool
	// Lineage is that of its log, and Votes tells that its log names it as a voter. Releases
	// that know of no restore leave both out.
	Lineage uuid.UUID
	Votes   bool
}

func writePreface(conn net.Conn, p preface) error {
	b := []byte{prefaceFirst, 'k', 'm', prefaceVersion, p.kind}
	for _, text := range []string{p.from, p.to, p.clusterID} {
		b = appendText(b, text)
	}
	_, err := conn.Write(b)
	return err
}

func readPreface(r io.Reader) (p preface, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return p, fmt.Errorf("read preface: %w", err)
	}
	if [3]byte(head[:3]) != [3]byte{prefaceFirst, 'k', 'm'} {
		return p, fmt.Errorf("%x is no preface", head)
	}
	if head[3] != prefaceVersion {
		return p, fmt.Errorf("preface of version %d, this release knows %d", head[3], prefaceVersion)
	}
	p.kind = head[4]
	for _, text := range []*string{&p.from, &p.to, &p.clusterID} {
		if *text, err = readText(r); err != nil {
			return p, err
		}
	}
	return p, nil
}

func writeRefusal(conn net.Conn, reason string) error {
	_, err := conn.Write(appendText([]byte{answerRefused}, reason[:min(len(reason), maxPrefaceText)]))
	return err
}

func writeState(conn net.Conn, s State) error {
	b := []byte{answerOK}
	b = binary.BigEndian.AppendUint32(b, uint32(s.NodeID))
	b = append(b, s.DirectoryID[:]...)
	var flags byte
	if s.Empty {
		flags |= 1
	}
	if s.HasPartitions {
		flags |= 2
	}
	if s.Votes {
		flags |= 4
	}
	b = appendText(append(b, flags), s.ClusterID)
	_, err := conn.Write(append(b, s.Lineage[:]...))
	return err
}

// readAnswer gives the error of a refusal.
func readAnswer(r io.Reader) error {
	var status [1]byte
	if _, err := io.ReadFull(r, status[:]); err != nil {
		return fmt.Errorf("no answer to the preface: %w", err)
	}
	if status[0] == answerOK {
		return nil
	}
	reason, err := readText(r)
	if err != nil {
		return err
	}
	return fmt.Errorf("refused: %s", reason)
}

func readState(r io.Reader) (s State, err error) {
	if err := readAnswer(r); err != nil {
		return s, err
	}
	var fixed [4 + 16 + 1]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return s, fmt.Errorf("read state: %w", err)
	}
	s.NodeID = int32(binary.BigEndian.Uint32(fixed[:]))
	s.DirectoryID = uuid.UUID(fixed[4:20])
	s.Empty, s.HasPartitions = fixed[20]&1 != 0, fixed[20]&2 != 0
	s.Votes = fixed[20]&4 != 0
	if s.ClusterID, err = readText(r); err != nil {
		return s, err
	}
	if _, err := io.ReadFull(r, s.Lineage[:]); err != nil && !errors.Is(err, io.EOF) {
		return s, fmt.Errorf("read state: %w", err)
	}
	return s, nil
}

func appendText(b []byte, text string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	return append(b, text...)
}

func readText(r io.Reader) (string, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", fmt.Errorf("read text of preface: %w", err)
	}
	n := binary.BigEndian.Uint16(size[:])
	if n > maxPrefaceText {
		return "", fmt.Errorf("text of %d bytes in a preface, at most %d", n, maxPrefaceText)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", fmt.Errorf("read text of preface: %w", err)
	}
	return string(text), nil
}
