package javaclient

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/compat-tests/matrix"
)

func TestMatrix(t *testing.T) { matrix.Run(t, matrix.Java(), program) }

func TestRacks(t *testing.T) { matrix.RunRacks(t, program) }

func program(t testing.TB, bootstrap string) matrix.Session {
	t.Helper()
	source := filepath.Join(matrix.Dir(), "programs", "java", "JavaClient.java")
	if _, err := java.Jars(); err != nil {
		t.Fatal(err)
	}
	return matrix.Process(t, func() *exec.Cmd {
		cmd, _ := java.Quick(source, bootstrap) // its only error is that of Jars
		return cmd
	})
}
