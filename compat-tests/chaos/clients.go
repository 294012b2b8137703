package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/compat-tests/node"
	"github.com/klamm-mq/klamm/compat-tests/python"
)

// kind is a client library: its producer, and a member of a group.
type kind struct {
	name       string
	idempotent bool // by default, or made so
	producer   func(t testing.TB, args []string) *exec.Cmd
	member     groups.Program
}

// kinds are in the order in which each group reads what the kind before has written.
// KafkaJS reads what Java wrote, for it cannot read franz-go's snappy.
func kinds() []kind {
	return []kind{
		{"franz", true, goProducer("franz"), groups.Go("franz")},
		{"java", true, javaProducer, javaMember()},
		{"kafkajs", false, nodeProducer, nodeMember()},
		{"python", true, pythonProducer("kafka_python.py"), pythonMember("member.py")},
		{"librdkafka", true, pythonProducer("librdkafka.py"), groups.Kcat()},
	}
}

// chosen are the kinds that CLIENTS names, all of them if it is empty.
func chosen(t testing.TB) (list []kind) {
	t.Helper()
	names := strings.FieldsFunc(os.Getenv("CLIENTS"), func(r rune) bool { return r == ',' })
	if len(names) == 0 {
		return kinds()
	}
	for _, k := range kinds() {
		if slices.Contains(names, k.name) {
			list = append(list, k)
		}
	}
	if len(list) < len(names) {
		t.Fatalf("CLIENTS=%s: the client libraries are franz, java, kafkajs, python, librdkafka", os.Getenv("CLIENTS"))
	}
	return list
}

func dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func source(parts ...string) string {
	return filepath.Join(append([]string{dir(), "producers"}, parts...)...)
}

func memberSource(parts ...string) string {
	return filepath.Join(append([]string{groups.Dir(), "members"}, parts...)...)
}

// must is for commands that need a toolchain, without which the test fails.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func goProducer(name string) func(t testing.TB, args []string) *exec.Cmd {
	return func(t testing.TB, args []string) *exec.Cmd {
		t.Helper()
		bin := filepath.Join(t.TempDir(), name)
		build := exec.Command("go", "build", "-o", bin, "./producers/"+name)
		build.Dir = dir()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the producer %s: %v\n%s", name, err, out)
		}
		return exec.Command(bin, args...)
	}
}

func javaProducer(t testing.TB, args []string) *exec.Cmd {
	t.Helper()
	return must[*exec.Cmd](t)(java.Command(source("java", "ChaosProducer.java"), args...))
}

func javaMember() groups.Program {
	return groups.Program{Name: "java", Command: func(t testing.TB, m groups.Member) *exec.Cmd {
		t.Helper()
		return must[*exec.Cmd](t)(java.Command(memberSource("java", "GroupMember.java"), m.Args()...))
	}}
}

func nodeProducer(t testing.TB, args []string) *exec.Cmd {
	t.Helper()
	return must[*exec.Cmd](t)(node.Command(source("node", "kafkajs.js"), args...))
}

func nodeMember() groups.Program {
	return groups.Program{Name: "kafkajs", Command: func(t testing.TB, m groups.Member) *exec.Cmd {
		t.Helper()
		return must[*exec.Cmd](t)(node.Command(memberSource("node", "member.js"), m.Args()...))
	}}
}

func pythonProducer(file string) func(t testing.TB, args []string) *exec.Cmd {
	return func(t testing.TB, args []string) *exec.Cmd {
		t.Helper()
		return exec.Command(must[string](t)(python.Interpreter()), append([]string{source("python", file)}, args...)...)
	}
}

func pythonMember(file string) groups.Program {
	return groups.Program{Name: "python", Command: func(t testing.TB, m groups.Member) *exec.Cmd {
		t.Helper()
		return exec.Command(must[string](t)(python.Interpreter()), append([]string{memberSource("python", file)}, m.Args()...)...)
	}}
}

// producerArgs is what a producer is told.
func producerArgs(bootstrap, topic, name string) []string {
	return []string{
		"--bootstrap=" + bootstrap, "--topic=" + topic, "--name=" + name,
		fmt.Sprintf("--partitions=%d", partitions), fmt.Sprintf("--pace-ms=%d", pace.Milliseconds()),
	}
}
