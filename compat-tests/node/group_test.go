package node

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

// member is a member of a group, members/node/FILE.
func member(t *testing.T, name, file string) groups.Program {
	t.Helper()
	dir, err := libraries()
	if err != nil {
		t.Fatal(err)
	}
	return groups.Program{Name: name, Command: func(_ testing.TB, m groups.Member) *exec.Cmd {
		return command(dir, filepath.Join(groups.Dir(), "members", "node", file), m.Args()...)
	}}
}

func TestKafkaJSGroup(t *testing.T) { groups.Run(t, member(t, "kafkajs", "member.js")) }
