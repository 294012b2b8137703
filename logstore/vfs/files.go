package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ReadFile returns the whole of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil // it shrank since Size, or is empty
	}
	return data[:n], err
}

// tempSuffix names the unfinished copy of WriteFileAtomic; Kafka uses the same.
const tempSuffix = ".tmp"

// WriteFileAtomic replaces a file so that a crash at any moment leaves the old bytes
// or the new ones, and the new ones once it has returned: it writes name+".tmp",
// syncs it, renames it and syncs the directory. An unfinished copy may stay behind;
// the next call overwrites it.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	temp := name + tempSuffix
	if err := writeAndSync(fsys, temp, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeAndSync(fsys FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
