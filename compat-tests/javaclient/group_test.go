package javaclient

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// consumer is a member that runs from its source.
func consumer(args ...string) groups.Program {
	return groups.Program{Name: "java", Command: func(t testing.TB, m groups.Member) *exec.Cmd {
		t.Helper()
		cmd, err := java.Quick(filepath.Join(groups.Dir(), "members", "java", "GroupMember.java"), m.Args(args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}}
}

func TestGroup(t *testing.T) { groups.Run(t, consumer()) }

// The assignor that moves partitions without stopping the others.
func TestCooperativeGroup(t *testing.T) {
	groups.Run(t, consumer("--assignor=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"))
}

// Libraries of different languages in one group, which have the range assignor in common.
func TestMixedGroup(t *testing.T) {
	ranged := consumer("--assignor=org.apache.kafka.clients.consumer.RangeAssignor")
	groups.RunMixed(t, ranged, groups.Go("franz", "-range"), groups.Kcat())
}

func TestStaticMembers(t *testing.T) { groups.RunStatic(t, consumer()) }
