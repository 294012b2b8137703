package python

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
)

// member is a member of a group, members/python/FILE.
func member(t *testing.T, name, file string) groups.Program {
	t.Helper()
	python, err := interpreter()
	if err != nil {
		t.Fatal(err)
	}
	return groups.Program{Name: name, Command: func(_ testing.TB, m groups.Member) *exec.Cmd {
		return exec.Command(python, append([]string{filepath.Join(groups.Dir(), "members", "python", file)}, m.Args()...)...)
	}}
}

func TestKafkaPythonGroup(t *testing.T) { groups.Run(t, member(t, "kafka-python", "member.py")) }

func TestKafkaPythonStaticMembers(t *testing.T) {
	groups.RunStatic(t, member(t, "kafka-python", "member.py"))
}

func TestConfluentGroup(t *testing.T) { groups.Run(t, member(t, "confluent-kafka", "confluent.py")) }

func TestConfluentStaticMembers(t *testing.T) {
	groups.RunStatic(t, member(t, "confluent-kafka", "confluent.py"))
}

func TestAIOKafkaGroup(t *testing.T) { groups.Run(t, member(t, "aiokafka", "aio_kafka.py")) }
