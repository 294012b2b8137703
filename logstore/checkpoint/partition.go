package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// PartitionMetadataFile names the file that says which topic a partition directory
// belongs to.
const PartitionMetadataFile = "partition.metadata"

// ReadPartitionMetadata reads the topic id of a partition directory. The error wraps
// fs.ErrNotExist if the file is missing, and is a *FormatError if it is malformed.
func ReadPartitionMetadata(fsys vfs.FS, name string) (uuid.UUID, error) {
	data, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return uuid.Zero, fmt.Errorf("read partition metadata: %w", err)
	}
	r := lineReader{file: name, rest: data}
	if _, err := r.property("version", func(v string) (string, error) {
		if v != "0" {
			return "", fmt.Errorf("version %q is not known, want 0", v)
		}
		return v, nil
	}); err != nil {
		return uuid.Zero, err
	}
	var id uuid.UUID
	_, err = r.property("topic_id", func(v string) (_ string, err error) {
		if id, err = uuid.Parse(v); err == nil && id.IsZero() {
			err = errors.New("the topic id is zero")
		}
		return v, err
	})
	return id, err
}

// property reads the next line as "key: value".
func (r *lineReader) property(key string, check func(string) (string, error)) (string, error) {
	if !r.next() {
		r.n++
		return "", r.errorf("%s is missing", key)
	}
	k, v, ok := bytes.Cut(r.line, []byte{':'})
	if !ok || string(bytes.TrimSpace(k)) != key {
		return "", r.errorf("want %q, found %q", key+": …", r.line)
	}
	value, err := check(string(bytes.TrimSpace(v)))
	if err != nil {
		return "", r.errorf("%v", err)
	}
	return value, nil
}

// EncodePartitionMetadata is the content of a partition.metadata file.
func EncodePartitionMetadata(id uuid.UUID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s\n", id)
}

// WritePartitionMetadata writes the topic id of a partition directory, durably.
func WritePartitionMetadata(fsys vfs.FS, name string, id uuid.UUID) error {
	return vfs.WriteFileAtomic(fsys, name, EncodePartitionMetadata(id))
}

// CleanShutdownFile exists between a clean stop and the next start.
const CleanShutdownFile = ".kafka_cleanshutdown"

// cleanShutdown is the file's content. Fields that are not known are ignored.
type cleanShutdown struct {
	Version     int    `json:"version"`
	BrokerEpoch *int64 `json:"brokerEpoch"`
	Void        bool   `json:"void,omitempty"` // ours: about to be removed, says nothing
}

// ReadCleanShutdown tells whether the last stop was clean, and under which broker
// epoch: -1 if the file does not say, as one written by an old Kafka.
func ReadCleanShutdown(fsys vfs.FS, name string) (brokerEpoch int64, clean bool, err error) {
	data, err := vfs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, false, nil
	}
	if err != nil {
		return -1, false, fmt.Errorf("read clean shutdown marker: %w", err)
	}
	var content cleanShutdown
	if err := json.Unmarshal(data, &content); err != nil || content.BrokerEpoch == nil {
		return -1, true, nil //nolint:nilerr // an old Kafka's marker is an empty file
	}
	if content.Void {
		return -1, false, nil
	}
	return *content.BrokerEpoch, true, nil
}

// WriteCleanShutdown marks a clean stop, durably.
func WriteCleanShutdown(fsys vfs.FS, name string, brokerEpoch int64) error {
	return writeCleanShutdown(fsys, name, cleanShutdown{BrokerEpoch: &brokerEpoch})
}

// VoidCleanShutdown writes a marker that says nothing. Whoever does not know whether an
// earlier removal has reached the disk has something to remove then.
func VoidCleanShutdown(fsys vfs.FS, name string) error {
	nothing := int64(-1)
	return writeCleanShutdown(fsys, name, cleanShutdown{BrokerEpoch: &nothing, Void: true})
}

func writeCleanShutdown(fsys vfs.FS, name string, content cleanShutdown) error {
	data, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode clean shutdown marker: %w", err)
	}
	return vfs.WriteFileAtomic(fsys, name, data)
}

// RemoveCleanShutdown removes the marker, durably; it is not an error if there is none.
func RemoveCleanShutdown(fsys vfs.FS, dir, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove clean shutdown marker: %w", err)
	}
	return fsys.SyncDir(dir)
}
