package matrix

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Dir is the folder of this package: the programs are below.
func Dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Go starts programs/NAME, a program in Go.
func Go(name string) func(t testing.TB, bootstrap string) Session {
	return func(t testing.TB, bootstrap string) Session {
		t.Helper()
		bin := filepath.Join(t.TempDir(), name)
		build := exec.Command("go", "build", "-o", bin, "./programs/"+name)
		build.Dir = Dir()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		return Process(t, func() *exec.Cmd { return exec.Command(bin, bootstrap) })
	}
}
