package node

import "os/exec"

// Command runs a program with the client libraries.
func Command(program string, args ...string) (*exec.Cmd, error) {
	dir, err := libraries()
	if err != nil {
		return nil, err
	}
	return command(dir, program, args...), nil
}
