package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
	"github.com/magiconair/properties"
)

const metaFile = "meta.properties"

// meta is the identity of a log directory as meta.properties keeps it, in Kafka's
// format (MetaProperties, version 1). The cluster id may be missing: a node learns it
// from the first metadata record, after its directories exist.
type meta struct {
	nodeID      int32
	clusterID   string
	directoryID uuid.UUID
	joined      bool // the file named a cluster before this run
}

// loadMeta reads the identity of the directory o describes, or gives it one. It
// refuses the directory of another node, of another cluster, and of a Kafka broker.
func loadMeta(o *DirOptions) (meta, error) {
	if err := refuseKafkaMetadata(o.FS, o.Path); err != nil {
		return meta{}, err
	}
	file := filepath.Join(o.Path, metaFile)
	data, err := vfs.ReadFile(o.FS, file)
	if errors.Is(err, fs.ErrNotExist) {
		return createMeta(o, file)
	}
	if err != nil {
		return meta{}, fmt.Errorf("read %s: %w", file, err)
	}
	m, err := parseMeta(file, data)
	if err != nil {
		return meta{}, err
	}
	if err := m.check(file, o.NodeID, o.ClusterID); err != nil {
		return meta{}, err
	}
	m.joined = m.clusterID != ""
	return m.complete(o, file)
}

// refuseKafkaMetadata protects a live Kafka directory from a stock configuration file
// that points at it (decision D23).
func refuseKafkaMetadata(fsys vfs.FS, dir string) error {
	file := filepath.Join(dir, partitionDirName(metadataTopic, 0))
	_, err := fsys.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", file, err)
	}
	return &ForeignDirError{File: file, Found: "a metadata log in Kafka's format"}
}

func createMeta(o *DirOptions, file string) (meta, error) {
	id, err := uuid.New(o.Rand)
	if err != nil {
		return meta{}, err
	}
	m := meta{nodeID: o.NodeID, clusterID: o.ClusterID, directoryID: id}
	return m, m.write(o.FS, file)
}

// complete fills in what an older file lacks and this run knows.
func (m meta) complete(o *DirOptions, file string) (meta, error) {
	old := m
	if m.directoryID.IsZero() {
		id, err := uuid.New(o.Rand)
		if err != nil {
			return m, err
		}
		m.directoryID = id
	}
	if m.clusterID == "" {
		m.clusterID = o.ClusterID
	}
	m.nodeID = o.NodeID
	if m == old {
		return m, nil
	}
	return m, m.write(o.FS, file)
}

// parseMeta reads version 1, and version 0 with its broker.id.
func parseMeta(file string, data []byte) (meta, error) {
	p, err := properties.Load(data, properties.ISO_8859_1)
	if err != nil {
		return meta{}, fmt.Errorf("read %s: %w", file, err)
	}
	idKey := "node.id"
	switch v := p.GetString("version", "0"); v {
	case "0":
		idKey = "broker.id"
	case "1":
	default:
		return meta{}, fmt.Errorf("read %s: version %q is not known", file, v)
	}
	m := meta{nodeID: -1, clusterID: p.GetString("cluster.id", "")}
	if s, ok := p.Get(idKey); ok {
		id, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return meta{}, fmt.Errorf("read %s: %s: %w", file, idKey, err)
		}
		m.nodeID = int32(id)
	}
	if s, ok := p.Get("directory.id"); ok {
		if m.directoryID, err = uuid.Parse(s); err != nil {
			return meta{}, fmt.Errorf("read %s: directory.id: %w", file, err)
		}
	}
	return m, nil
}

// check compares with this broker's identity, as far as each side knows one.
func (m meta) check(file string, nodeID int32, clusterID string) error {
	if m.nodeID >= 0 && m.nodeID != nodeID {
		return &ForeignDirError{
			File: file, Key: "node.id",
			Found: strconv.Itoa(int(m.nodeID)), Wanted: strconv.Itoa(int(nodeID)),
		}
	}
	if m.clusterID != "" && clusterID != "" && m.clusterID != clusterID {
		return &ForeignDirError{File: file, Key: "cluster.id", Found: m.clusterID, Wanted: clusterID}
	}
	return nil
}

func (m meta) write(fsys vfs.FS, file string) error {
	p := properties.NewProperties()
	p.DisableExpansion = true
	set := func(key, value string) {
		if value != "" {
			p.MustSet(key, value)
		}
	}
	set("version", "1")
	set("cluster.id", m.clusterID)
	set("node.id", strconv.Itoa(int(m.nodeID)))
	set("directory.id", m.directoryID.String())
	p.WriteSeparator = "="
	var b strings.Builder
	if _, err := p.Write(&b, properties.ISO_8859_1); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return vfs.WriteFileAtomic(fsys, file, []byte(b.String()))
}

// SetClusterID records the id of the cluster that this node turned out to belong to.
// It is an error if the directory already belongs to another.
func (d *Dir) SetClusterID(id string) error {
	d.identity <- struct{}{}
	defer func() { <-d.identity }()
	d.mu.Lock()
	m := d.meta
	d.mu.Unlock()
	file := d.file(metaFile)
	if err := m.check(file, d.o.NodeID, id); err != nil {
		return err
	}
	if m.clusterID == id {
		return nil
	}
	m.clusterID = id
	if err := m.write(d.o.FS, file); err != nil {
		return err
	}
	d.mu.Lock()
	d.meta = m
	d.mu.Unlock()
	return nil
}
