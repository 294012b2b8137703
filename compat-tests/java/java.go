package java

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Jars is a directory with Apache Kafka 4.4 and what it depends on. They are copied once
// into the checkout's compat-tests/.cache.
var Jars = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	lib := filepath.Join(filepath.Dir(here), ".cache", "kafka-4.4.0")
	if found, _ := filepath.Glob(filepath.Join(lib, "kafka-clients-*.jar")); len(found) > 0 {
		return lib, nil
	}
	cmd := exec.Command("mvn", "-q", "-B", "-f", filepath.Join(here, "pom.xml"),
		"dependency:copy-dependencies", "-DoutputDirectory="+lib, "-DincludeScope=runtime")
	if out, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(lib)
		return "", fmt.Errorf("fetch Kafka's jars with Maven: %w\n%s", err, out)
	}
	return lib, nil
})

// Command is a Java process that runs a class of Kafka's.
func Command(class string, args ...string) (*exec.Cmd, error) {
	lib, err := Jars()
	if err != nil {
		return nil, err
	}
	argv := append([]string{"-Xmx512m", "-cp", filepath.Join(lib, "*"), class}, args...)
	return exec.Command("java", argv...), nil
}
