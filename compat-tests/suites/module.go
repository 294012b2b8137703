package suites

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Programs are the compiled tests of a suite, by package.
type Programs map[string]Program

// Program is the compiled tests of one package.
type Program struct {
	Path, Dir string
	Run       string // pattern of those that are run, of subtests as well; empty: all
}

// Build compiles the suite from a copy of its module, which has the sum that is expected:
// the module cache itself is not written to.
func (s Suite) Build() (Programs, error) {
	dir, err := s.copied()
	if err != nil {
		return nil, err
	}
	for name, content := range s.Files {
		if err := os.WriteFile(filepath.Join(dir, s.Packages[0], name), []byte(content+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	programs := Programs{}
	for i, pkg := range s.Packages {
		p := Program{Path: filepath.Join(dir, fmt.Sprintf("klamm-%d.test", i)), Dir: filepath.Join(dir, pkg)}
		// -mod=mod, since some go.mod are older than their Go.
		build := exec.Command("go", "test", "-mod=mod", "-tags="+s.Tags, "-c", "-o", p.Path, pkg)
		build.Dir, build.Env = dir, append(os.Environ(), s.Env("")...)
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the tests of %s %s: %w\n%s", s.Module, pkg, err, out)
		}
		if p.Run, err = s.chosen(p.Dir); err != nil {
			return nil, err
		}
		programs[pkg] = p
	}
	return programs, nil
}

// chosen matches the tests of a package that are in the files of s.Tests.
func (s Suite) chosen(dir string) (string, error) {
	if s.Tests == "" {
		return "", nil
	}
	files, err := filepath.Glob(filepath.Join(dir, s.Tests))
	if err != nil {
		return "", err
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	if names == nil {
		return "", fmt.Errorf("%s has no tests in %s", s.Module, s.Tests)
	}
	return "^(" + strings.Join(names, "|") + ")$", nil
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// copied is a directory with the files of the module.
func (s Suite) copied() (string, error) {
	var found struct{ Dir, Sum, Error string }
	out, err := exec.Command("go", "mod", "download", "-json", s.Module+"@"+s.Version).Output()
	if jsonErr := json.Unmarshal(out, &found); err != nil || jsonErr != nil {
		return "", fmt.Errorf("download %s %s: %w %s", s.Module, s.Version, err, found.Error)
	}
	if found.Sum != s.Sum {
		return "", fmt.Errorf("%s %s has the sum %s, want %s", s.Module, s.Version, found.Sum, s.Sum)
	}
	dir := filepath.Join(filepath.Dir(here()), ".cache", "suites", s.Name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(found.Dir)); err != nil {
		return "", fmt.Errorf("copy %s: %w", s.Module, err)
	}
	return dir, nil
}
