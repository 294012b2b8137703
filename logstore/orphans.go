package logstore

// FirstPartition is the name of a directory in d that looks like a partition's, "" if there
// is none. Before OpenLogs it tells a directory that has been used from a new one.
func (d *Dir) FirstPartition() (string, error) {
	entries, err := d.o.FS.ReadDir(d.o.Path)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if kind, _, _ := parseDirName(e.Name()); kind != partitionDir || !e.IsDir() {
			continue
		}
		ours, _, err := d.lookInto(d.file(e.Name()))
		if err != nil {
			return "", err
		}
		if ours {
			return e.Name(), nil
		}
	}
	return "", nil
}
