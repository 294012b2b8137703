package node

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix"
)

// program starts matrix/programs/node/FILE.
func program(file string) func(t testing.TB, bootstrap string) matrix.Session {
	return func(t testing.TB, bootstrap string) matrix.Session {
		t.Helper()
		dir, err := libraries()
		if err != nil {
			t.Fatal(err)
		}
		return matrix.Process(t, func() *exec.Cmd {
			return command(dir, filepath.Join(matrix.Dir(), "programs", "node", file), bootstrap)
		})
	}
}

func TestKafkaJSMatrix(t *testing.T) { matrix.Run(t, matrix.KafkaJS(), program("kafkajs.mjs")) }

func TestPlatformaticMatrix(t *testing.T) {
	matrix.Run(t, matrix.Platformatic(), program("platformatic.mjs"))
}
