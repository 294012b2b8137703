package metadata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	pb "github.com/klamm-mq/klamm/cluster/metadata/metadatapb"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// snapshotFormat is the version of the framing below, not of the records in it.
const snapshotFormat = 1

// maxSnapshotMessage bounds one message of a snapshot: no record comes near the largest
// entry of the log (D25), so more is damage.
const maxSnapshotMessage = 1 << 20

// Snapshot is an image with what the log's state machine remembers besides it.
type Snapshot struct {
	Image *Image
	// The last entry that was accepted (D17).
	EntryTerm, EntryNumber uint64
	// Lineage is drawn anew when a log begins with a backup: two logs of one cluster that
	// differ in it are not the same, whatever their positions say. Zero: the log goes back
	// to the founding of the cluster.
	Lineage uuid.UUID
}

// Records yields the records that rebuild the image from Empty, in an order that depends
// on nothing but the image.
func (i *Image) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		if !i.yieldCluster(yield) {
			return
		}
		for b := range i.Brokers() {
			if !yield(RegisterBrokerRecord{*b}) {
				return
			}
		}
		for c := range i.Controllers() {
			if !yield(RegisterControllerRecord{*c}) {
				return
			}
		}
		for t := range i.Topics() {
			if !t.yieldRecords(yield) {
				return
			}
		}
		for r, values := range i.Configs() {
			for _, key := range slices.Sorted(maps.Keys(values)) {
				if !yield(ConfigRecord{r, key, Ptr(values[key])}) {
					return
				}
			}
		}
		for e, values := range i.Quotas() {
			for _, key := range slices.Sorted(maps.Keys(values)) {
				if !yield(QuotaRecord{e, key, Ptr(values[key])}) {
					return
				}
			}
		}
		if i.nextProducerID > 0 {
			yield(ProducerIDsRecord{BrokerID: -1, BrokerEpoch: -1, Next: i.nextProducerID})
		}
	}
}

func (i *Image) yieldCluster(yield func(Record) bool) bool {
	if i.clusterID != "" {
		return yield(BootstrapRecord{i.clusterID, i.durability, i.features, i.forOne})
	}
	for _, f := range i.features {
		if !yield(FeatureLevelRecord{f}) {
			return false
		}
	}
	return true
}

func (t *Topic) yieldRecords(yield func(Record) bool) bool {
	if !yield(TopicRecord{t.Name, t.ID}) {
		return false
	}
	for _, p := range t.Partitions {
		if !yield(PartitionRecord{t.ID, *p}) {
			return false
		}
	}
	return true
}

// WriteSnapshot writes a snapshot: a header and the image's records, each message with
// its length as a uvarint in front.
func WriteSnapshot(w io.Writer, s Snapshot) error {
	count := uint64(0)
	for range s.Image.Records() {
		count++
	}
	first := &pb.SnapshotHeader{
		FormatVersion: snapshotFormat,
		Index:         s.Image.pos.Index,
		Term:          s.Image.pos.Term,
		EntryTerm:     s.EntryTerm,
		EntryNumber:   s.EntryNumber,
		RecordCount:   count,
	}
	if !s.Lineage.IsZero() {
		first.Lineage = s.Lineage[:]
	}
	header, err := marshal(nil, first)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	writeMessage(out, header)
	level := s.Image.Feature(FeatureMetadata)
	for r := range s.Image.Records() {
		b, err := EncodeRecord(r, level)
		if err != nil {
			return fmt.Errorf("write metadata snapshot: %w", err)
		}
		writeMessage(out, b)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write metadata snapshot: %w", err)
	}
	return nil
}

// writeMessage leaves errors to Flush, which reports the first.
func writeMessage(w *bufio.Writer, b []byte) {
	_, _ = w.Write(binary.AppendUvarint(nil, uint64(len(b))))
	_, _ = w.Write(b)
}

// ReadSnapshot reads what WriteSnapshot wrote, up to the end of r. The error wraps
// ErrUnsupported if a newer release wrote it; any other error is damage.
func ReadSnapshot(r io.Reader) (Snapshot, error) {
	in := bufio.NewReader(r)
	b, err := readMessage(in)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read metadata snapshot: header: %w", err)
	}
	var header pb.SnapshotHeader
	if err := unmarshal(b, &header); err != nil {
		return Snapshot{}, fmt.Errorf("read metadata snapshot: header: %w", err)
	}
	if header.FormatVersion > snapshotFormat {
		return Snapshot{}, fmt.Errorf("read metadata snapshot: format %d, known up to %d: %w", header.FormatVersion, snapshotFormat, ErrUnsupported)
	}
	s := Snapshot{EntryTerm: header.EntryTerm, EntryNumber: header.EntryNumber}
	switch len(header.Lineage) {
	case 0, len(s.Lineage):
		copy(s.Lineage[:], header.Lineage)
	default:
		return Snapshot{}, fmt.Errorf("read metadata snapshot: lineage of %d bytes", len(header.Lineage))
	}
	if s.Image, err = readRecords(in, &header); err != nil {
		return Snapshot{}, fmt.Errorf("read metadata snapshot: %w", err)
	}
	return s, nil
}

func readRecords(in *bufio.Reader, header *pb.SnapshotHeader) (*Image, error) {
	d := NewDelta(nil)
	for i := range header.RecordCount {
		b, err := readMessage(in)
		if err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i, header.RecordCount, err)
		}
		record, err := DecodeRecord(b)
		if err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i, header.RecordCount, err)
		}
		if err := d.replayPlain(record); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i, header.RecordCount, err)
		}
	}
	switch _, err := in.ReadByte(); {
	case err == nil:
		return nil, fmt.Errorf("more bytes after %d records", header.RecordCount)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("after %d records: %w", header.RecordCount, err)
	}
	return d.Image(Position{Index: header.Index, Term: header.Term}), nil
}

// replayPlain replays a record of a snapshot, where there are no transactions.
func (d *Delta) replayPlain(r Record) error {
	switch r.(type) {
	case BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord:
		return invalid("%s record in a snapshot", Name(r))
	default:
		return d.Replay(r)
	}
}

func readMessage(in *bufio.Reader) ([]byte, error) {
	size, err := binary.ReadUvarint(in)
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if size > maxSnapshotMessage {
		return nil, fmt.Errorf("message of %d bytes, at most %d", size, maxSnapshotMessage)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(in, b); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return b, nil
}
