package java

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

//go:embed pom.xml connect/pom.xml
var poms embed.FS

// Jars is a directory with Apache Kafka 4.4, its tools and its Streams, and what they depend
// on. They are copied once into the checkout's compat-tests/.cache, anew for another pom.xml.
var Jars = sync.OnceValues(func() (string, error) { return fetch("pom.xml", "kafka-4.4.0") })

// ConnectJars is Jars with Kafka Connect, its connectors of files and MirrorMaker.
var ConnectJars = sync.OnceValues(func() (string, error) { return fetch("connect/pom.xml", "connect-4.3.1") })

func fetch(pom, name string) (string, error) {
	text, err := poms.ReadFile(pom)
	if err != nil {
		return "", err
	}
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	cache := filepath.Join(filepath.Dir(here), ".cache")
	lib := filepath.Join(cache, fmt.Sprintf("%s-%.4x", name, sha256.Sum256(text)))
	if _, err := os.Stat(lib); err == nil {
		return lib, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fetched, err := os.MkdirTemp(cache, "fetching-") // another test may fetch at the same time
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(fetched) }()
	cmd := exec.Command("mvn", "-q", "-B", "-f", filepath.Join(here, pom),
		"dependency:copy-dependencies", "-DoutputDirectory="+fetched, "-DincludeScope=runtime")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch the jars of %s with Maven: %w\n%s", pom, err, out)
	}
	if err := os.Rename(fetched, lib); err != nil && !os.IsExist(err) {
		return "", err
	}
	return lib, nil
}

// Command is a Java process that runs a class of Kafka's.
func Command(class string, args ...string) (*exec.Cmd, error) {
	return CommandJVM([]string{"-Xmx512m"}, class, args...)
}

// CommandJVM is Command with flags for the virtual machine.
func CommandJVM(flags []string, class string, args ...string) (*exec.Cmd, error) {
	lib, err := Jars()
	if err != nil {
		return nil, err
	}
	return command(lib, flags, class, args), nil
}

func command(lib string, flags []string, class string, args []string) *exec.Cmd {
	argv := append(slices.Clone(flags), "-cp", filepath.Join(lib, "*"), class)
	return exec.Command("java", append(argv, args...)...)
}
