package python

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix"
)

// program starts matrix/programs/python/FILE.
func program(file string) func(t testing.TB, bootstrap string) matrix.Session {
	return func(t testing.TB, bootstrap string) matrix.Session {
		t.Helper()
		python, err := interpreter()
		if err != nil {
			t.Fatal(err)
		}
		return matrix.Process(t, func() *exec.Cmd {
			return exec.Command(python, filepath.Join(matrix.Dir(), "programs", "python", file), bootstrap)
		})
	}
}

func TestKafkaPythonMatrix(t *testing.T) {
	matrix.Run(t, matrix.KafkaPython(), program("kafka_python.py"))
}

func TestConfluentMatrix(t *testing.T) {
	matrix.Run(t, matrix.ConfluentPython(), program("confluent.py"))
}

func TestAIOKafkaMatrix(t *testing.T) { matrix.Run(t, matrix.AIOKafka(), program("aio_kafka.py")) }

func TestKafkaPythonRacks(t *testing.T) {
	matrix.RunRacks(t, program("kafka_python.py"))
}

func TestConfluentRacks(t *testing.T) {
	matrix.RunRacks(t, program("confluent.py"))
}
