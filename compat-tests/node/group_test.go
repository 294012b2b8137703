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

// After a rebalance the stream reads partitions again that its member has kept, and has
// older records committed after newer ones.
func TestPlatformaticGroup(t *testing.T) {
	platformatic := member(t, "platformatic", "platformatic.mjs")
	platformatic.GoesBack = true
	platformatic.Stalls = "its stream may stop fetching for good when its connection is lost"
	groups.Run(t, platformatic)
}
