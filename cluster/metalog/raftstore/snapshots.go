package raftstore

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// A snapshot is one file:
//
//	 0         8          12        16          16+m            end−12     end−4     end
//	┌─────────┬──────────┬─────────┬───────────┬───────────────┬──────────┬─────────┐
//	│ magic   │ m = size │ CRC-32C │ meta data │ payload       │ payload  │ CRC-32C │
//	│ KLAMSNP1│ of meta  │ of meta │ (JSON)    │               │ size     │ of both │
//	└─────────┴──────────┴─────────┴───────────┴───────────────┴──────────┴─────────┘
//
// It is written under a temporary name and appears whole: synced, renamed, directory
// synced. The last CRC covers payload and payload size.
const (
	snapshotMagic      = "KLAMSNP1"
	snapshotHeaderSize = 16
	snapshotFooterSize = 12
	snapshotSuffix     = ".snapshot"
	unfinishedSuffix   = ".unfinished"

	// maxSnapshotMeta bounds the meta data, which lists the servers.
	maxSnapshotMeta = 1 << 20

	// retainSnapshots is how many are kept: the older one serves should the newer be damaged.
	retainSnapshots = 2
)

// Snapshots is a raft.SnapshotStore in the files of one directory.
type Snapshots struct {
	fsys   vfs.FS
	dir    string
	logger *slog.Logger
}

// OpenSnapshots opens or creates a snapshot store in dir, which only it uses, and removes
// unfinished ones.
func OpenSnapshots(fsys vfs.FS, dir string, logger *slog.Logger) (*Snapshots, error) {
	s := &Snapshots{fsys: fsys, dir: dir, logger: logger}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open snapshots in %s: %w", dir, err)
	}
	return s, nil
}

func (s *Snapshots) open() error {
	if err := s.fsys.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := s.fsys.SyncDir(filepath.Dir(s.dir)); err != nil {
		return err
	}
	entries, err := s.fsys.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), unfinishedSuffix) {
			if err := s.fsys.Remove(filepath.Join(s.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Create starts a snapshot; it exists once the sink is closed.
func (s *Snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("create snapshot of version %d", version)
	}
	meta := raft.SnapshotMeta{
		Version:            version,
		ID:                 fmt.Sprintf("%020d-%d", index, term),
		Index:              index,
		Term:               term,
		Configuration:      configuration,
		ConfigurationIndex: configurationIndex,
	}
	sink, err := s.createSink(meta)
	if err != nil {
		return nil, fmt.Errorf("create snapshot %s: %w", meta.ID, err)
	}
	return sink, nil
}

func (s *Snapshots) createSink(meta raft.SnapshotMeta) (*snapshotSink, error) {
	encoded, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	header := append([]byte(snapshotMagic), make([]byte, 8)...)
	binary.BigEndian.PutUint32(header[8:], uint32(len(encoded)))
	binary.BigEndian.PutUint32(header[12:], crc32.Checksum(encoded, castagnoli()))
	header = append(header, encoded...)

	file, err := s.fsys.OpenFile(s.name(meta.ID)+unfinishedSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	sink := &snapshotSink{store: s, id: meta.ID, file: file, crc: crc32.New(castagnoli())}
	if err := sink.put(header); err != nil {
		return nil, errors.Join(err, sink.Cancel())
	}
	return sink, nil
}

func (s *Snapshots) name(id string) string { return filepath.Join(s.dir, id+snapshotSuffix) }

// List gives the snapshots whose meta data is sound, newest first.
func (s *Snapshots) List() ([]*raft.SnapshotMeta, error) {
	entries, err := s.fsys.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var list []*raft.SnapshotMeta
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), snapshotSuffix)
		if !ok {
			continue
		}
		meta, err := s.readMeta(id)
		if err != nil {
			s.logger.Error("metadata snapshot is not usable", "error", err)
			continue
		}
		list = append(list, meta)
	}
	slices.SortFunc(list, func(a, b *raft.SnapshotMeta) int {
		if a.Index != b.Index {
			return cmp.Compare(b.Index, a.Index)
		}
		return cmp.Compare(b.Term, a.Term)
	})
	return list, nil
}

func (s *Snapshots) readMeta(id string) (*raft.SnapshotMeta, error) {
	file, err := s.fsys.OpenFile(s.name(id), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	meta, _, err := readSnapshotMeta(file)
	if err != nil {
		err = &CorruptionError{file.Name(), 0, err}
	}
	return meta, errors.Join(err, file.Close())
}

// readSnapshotMeta gives the meta data and where the payload begins.
func readSnapshotMeta(file vfs.File) (*raft.SnapshotMeta, int64, error) {
	size, err := file.Size()
	if err != nil {
		return nil, 0, err
	}
	header := make([]byte, snapshotHeaderSize)
	if _, err := file.ReadAt(header, 0); err != nil {
		return nil, 0, fmt.Errorf("read header: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(header[8:]))
	if string(header[:8]) != snapshotMagic || n > maxSnapshotMeta || size < snapshotHeaderSize+n+snapshotFooterSize {
		return nil, 0, errors.New("not a snapshot")
	}
	encoded := make([]byte, n)
	if _, err := file.ReadAt(encoded, snapshotHeaderSize); err != nil {
		return nil, 0, fmt.Errorf("read meta data: %w", err)
	}
	if crc32.Checksum(encoded, castagnoli()) != binary.BigEndian.Uint32(header[12:]) {
		return nil, 0, errors.New("meta data with wrong checksum")
	}
	var meta raft.SnapshotMeta
	if err := json.Unmarshal(encoded, &meta); err != nil {
		return nil, 0, err
	}
	start := snapshotHeaderSize + n
	meta.Size = size - start - snapshotFooterSize
	return &meta, start, nil
}

// Open checks the whole snapshot and gives its payload.
func (s *Snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	file, err := s.fsys.OpenFile(s.name(id), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open snapshot %s: %w", id, err)
	}
	meta, start, err := readSnapshotMeta(file)
	if err == nil {
		err = checkPayload(file, start, meta.Size)
	}
	if err != nil {
		return nil, nil, errors.Join(&CorruptionError{file.Name(), 0, err}, file.Close())
	}
	return meta, &snapshotReader{io.NewSectionReader(file, start, meta.Size), file}, nil
}

func checkPayload(file vfs.File, start, size int64) error {
	footer := make([]byte, snapshotFooterSize)
	if _, err := file.ReadAt(footer, start+size); err != nil {
		return fmt.Errorf("read footer: %w", err)
	}
	if int64(binary.BigEndian.Uint64(footer)) != size {
		return fmt.Errorf("payload of %d bytes where %d belong", size, binary.BigEndian.Uint64(footer))
	}
	crc := crc32.New(castagnoli())
	if _, err := io.Copy(crc, io.NewSectionReader(file, start, size+8)); err != nil {
		return fmt.Errorf("read payload: %w", err)
	}
	if crc.Sum32() != binary.BigEndian.Uint32(footer[8:]) {
		return errors.New("payload with wrong checksum")
	}
	return nil
}

type snapshotReader struct {
	io.Reader
	io.Closer
}

// reap removes all but the newest snapshots.
func (s *Snapshots) reap() error {
	list, err := s.List()
	if err != nil {
		return err
	}
	for _, meta := range list[min(retainSnapshots, len(list)):] {
		if err := s.fsys.Remove(s.name(meta.ID)); err != nil {
			return err
		}
	}
	return nil
}

// snapshotSink writes one snapshot.
type snapshotSink struct {
	store *Snapshots
	id    string
	file  vfs.File
	pos   int64
	size  uint64 // of the payload
	crc   hash.Hash32
	over  bool // closed or cancelled
}

// ID names the snapshot.
func (k *snapshotSink) ID() string { return k.id }

func (k *snapshotSink) put(b []byte) error {
	n, err := k.file.WriteAt(b, k.pos)
	k.pos += int64(n)
	return err
}

// Write appends to the payload.
func (k *snapshotSink) Write(b []byte) (int, error) {
	if err := k.put(b); err != nil {
		return 0, fmt.Errorf("write snapshot %s: %w", k.id, err)
	}
	k.size += uint64(len(b))
	_, _ = k.crc.Write(b)
	return len(b), nil
}

// Close makes the snapshot durable, and known under its name.
func (k *snapshotSink) Close() error {
	if k.over {
		return nil
	}
	if err := k.finish(); err != nil {
		return errors.Join(fmt.Errorf("finish snapshot %s: %w", k.id, err), k.Cancel())
	}
	k.over = true
	if err := k.store.reap(); err != nil {
		k.store.logger.Warn("old metadata snapshots stay", "error", err)
	}
	return nil
}

func (k *snapshotSink) finish() error {
	footer := binary.BigEndian.AppendUint64(nil, k.size)
	_, _ = k.crc.Write(footer)
	footer = binary.BigEndian.AppendUint32(footer, k.crc.Sum32())
	if err := k.put(footer); err != nil {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	name := k.store.name(k.id)
	if err := k.store.fsys.Rename(name+unfinishedSuffix, name); err != nil {
		return err
	}
	if err := k.store.fsys.SyncDir(k.store.dir); err != nil {
		return err
	}
	return k.file.Close()
}

// Cancel drops the snapshot.
func (k *snapshotSink) Cancel() error {
	if k.over {
		return nil
	}
	k.over = true
	return errors.Join(k.file.Close(), k.store.fsys.Remove(k.store.name(k.id)+unfinishedSuffix))
}
