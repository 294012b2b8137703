package metadata

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A backup is one file:
//
//	 0         8         12       16         16+n                 end−32    end
//	┌─────────┬─────────┬────────┬──────────┬────────────────────┬─────────┐
//	│ magic   │ version │ n      │ header   │ snapshot           │ SHA-256 │
//	│ KLAMMBAK│ 1       │        │ (JSON)   │ (see WriteSnapshot)│ of all  │
//	└─────────┴─────────┴────────┴──────────┴────────────────────┴─────────┘
//
// Numbers are big endian. The header is for people; what it says of the image is compared
// with the image. The checksum covers everything before it, so a change anywhere is found.
const (
	backupMagic      = "KLAMMBAK"
	backupVersion    = 1
	backupHeaderSize = len(backupMagic) + 4 + 4

	// maxBackupBytes bounds what is read into memory: millions of partitions.
	maxBackupBytes = 1 << 30
)

// Backup is the metadata of a cluster at one position of its log, as one node had it.
type Backup struct {
	Created time.Time // by that node's clock; whole milliseconds are kept
	NodeID  int32
	Release string // of the software that wrote it
	Image   *Image
}

// backupHeader is the JSON in a backup.
type backupHeader struct {
	Created   time.Time `json:"created"`
	NodeID    int32     `json:"node"`
	Release   string    `json:"release"`
	ClusterID string    `json:"cluster"`
	Level     int16     `json:"level"` // of FeatureMetadata
	Index     uint64    `json:"index"`
	Term      uint64    `json:"term"`
}

func (b *Backup) header() backupHeader {
	return backupHeader{
		Created: b.Created.UTC().Truncate(time.Millisecond), NodeID: b.NodeID, Release: b.Release,
		ClusterID: b.Image.ClusterID(), Level: b.Image.Feature(FeatureMetadata),
		Index: b.Image.pos.Index, Term: b.Image.pos.Term,
	}
}

// WriteBackup writes a backup. The image must be that of a cluster.
func WriteBackup(w io.Writer, b Backup) error {
	if b.Image.ClusterID() == "" {
		return errors.New("write backup of metadata: this node knows of no cluster")
	}
	header, err := json.Marshal(b.header())
	if err != nil {
		return fmt.Errorf("write backup of metadata: %w", err)
	}
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	head := binary.BigEndian.AppendUint32([]byte(backupMagic), backupVersion)
	head = append(binary.BigEndian.AppendUint32(head, uint32(len(header))), header...)
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("write backup of metadata: %w", err)
	}
	if err := WriteSnapshot(out, Snapshot{Image: b.Image}); err != nil {
		return fmt.Errorf("write backup of metadata: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write backup of metadata: %w", err)
	}
	return nil
}

// ReadBackup reads what WriteBackup wrote, up to the end of r. The error wraps
// ErrUnsupported if a newer release wrote it; any other error of a reader that works is
// damage, or the file is no backup.
func ReadBackup(r io.Reader) (Backup, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBackupBytes+1))
	if err == nil {
		var b Backup
		if b, err = parseBackup(data); err == nil {
			return b, nil
		}
	}
	return Backup{}, fmt.Errorf("read backup of metadata: %w", err)
}

func parseBackup(data []byte) (b Backup, err error) {
	header, payload, err := cutBackup(data)
	if err != nil {
		return b, err
	}
	var h backupHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return b, fmt.Errorf("header: %w", err)
	}
	s, err := ReadSnapshot(bytes.NewReader(payload))
	if err != nil {
		return b, err
	}
	b = Backup{Created: h.Created, NodeID: h.NodeID, Release: h.Release, Image: s.Image}
	if s.Image.ClusterID() == "" {
		return b, errors.New("it is of no cluster")
	}
	if h != b.header() {
		return b, fmt.Errorf("the header says %+v, the metadata %+v", h, b.header())
	}
	return b, nil
}

// cutBackup checks everything around header and payload.
func cutBackup(data []byte) (header, payload []byte, err error) {
	if len(data) > maxBackupBytes {
		return nil, nil, fmt.Errorf("more than %d bytes", maxBackupBytes)
	}
	if len(data) < backupHeaderSize+sha256.Size || string(data[:len(backupMagic)]) != backupMagic {
		return nil, nil, errors.New("this is no backup of metadata, or it is cut off")
	}
	if v := binary.BigEndian.Uint32(data[len(backupMagic):]); v > backupVersion {
		return nil, nil, fmt.Errorf("format %d, known up to %d: %w", v, backupVersion, ErrUnsupported)
	} else if v != backupVersion {
		return nil, nil, fmt.Errorf("there is no format %d", v)
	}
	end := len(data) - sha256.Size
	if sha256.Sum256(data[:end]) != [sha256.Size]byte(data[end:]) {
		return nil, nil, errors.New("wrong checksum: the file is damaged or cut off")
	}
	n := binary.BigEndian.Uint32(data[len(backupMagic)+4:])
	if int64(n) > int64(end-backupHeaderSize) {
		return nil, nil, fmt.Errorf("header of %d bytes in %d", n, end-backupHeaderSize)
	}
	return data[backupHeaderSize : backupHeaderSize+int(n)], data[backupHeaderSize+int(n) : end], nil
}
