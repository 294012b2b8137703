package chaos

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// callerOf finds out which of some processes is at the other end of a connection on this
// machine: the system lists its socket, and what files each process has open. It is 0 if it
// is none of them.
func callerOf(conn net.Conn, pids []int) (pid int, err error) {
	theirs, ok := conn.RemoteAddr().(*net.TCPAddr)
	ours, ok2 := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		return 0, fmt.Errorf("a connection from %v, not over TCP", conn.RemoteAddr())
	}
	inode, err := inodeOf(theirs.Port, ours.Port)
	if err != nil || inode == "" {
		return 0, err // "": it has been closed already
	}
	for _, pid := range pids {
		if hasOpen(pid, "socket:["+inode+"]") {
			return pid, nil
		}
	}
	return 0, nil
}

// inodeOf is the number of the socket that goes from a port to another one.
func inodeOf(from, to int) (string, error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", fmt.Errorf("find out who is at the other end of a connection (this needs Linux): %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	local, remote := fmt.Sprintf(":%04X", from), fmt.Sprintf(":%04X", to)
	in := bufio.NewScanner(f)
	for in.Scan() {
		// sl local_address rem_address st queues timer retransmits uid timeout inode …
		fields := strings.Fields(in.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], local) && strings.HasSuffix(fields[2], remote) && fields[9] != "0" {
			return fields[9], nil
		}
	}
	return "", in.Err()
}

func hasOpen(pid int, file string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended
	}
	for _, e := range entries {
		if at, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && at == file {
			return true
		}
	}
	return false
}
