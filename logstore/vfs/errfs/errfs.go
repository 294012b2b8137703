package errfs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/klamm-mq/klamm/logstore/vfs"
	"github.com/klamm-mq/klamm/logstore/vfs/hookfs"
)

// FS is a file system whose calls fail by rules.
type FS struct {
	*hookfs.FS

	mu    sync.Mutex // guards the rest; a leaf
	rules []*rule
	fired int
}

// Wrap lets calls of inner fail by the rules. It panics on a rule that it can't read:
// rules are part of a test's text.
func Wrap(inner vfs.FS, rules ...string) *FS {
	e := &FS{}
	e.FS = hookfs.Wrap(inner, true, e.judge)
	for _, text := range rules {
		e.Add(text)
	}
	return e
}

// Add adds a rule behind the others. It panics on a rule that it can't read.
func (e *FS) Add(text string) {
	r, err := parse(text)
	if err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rules = append(e.rules, r)
}

// Clear removes all rules.
func (e *FS) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rules = nil
}

// Fired is the number of calls that were made to fail.
func (e *FS) Fired() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fired
}

func (e *FS) judge(call *hookfs.Call) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var verdict *rule
	for _, r := range e.rules {
		if r.matches(call) && r.due() && verdict == nil {
			verdict = r
		}
	}
	if verdict == nil {
		return nil
	}
	e.fired++
	call.Partial = verdict.partial
	return &fs.PathError{Op: string(call.Op), Path: call.Name, Err: verdict.err}
}

// rule is one line.
type rule struct {
	op            hookfs.Op
	pattern, dir  string
	first, last   int // of the matching calls, counted from 1, those that fail
	err           error
	partial, seen int
}

const (
	anyOp   hookfs.Op = "any"
	forever           = int(^uint(0) >> 1)
)

func parse(text string) (*rule, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, fmt.Errorf("errfs: empty rule")
	}
	r := &rule{op: hookfs.Op(words[0]), first: 1, last: forever, err: syscall.EIO}
	if r.op != anyOp && !slices.Contains(hookfs.Ops(), r.op) {
		return nil, fmt.Errorf("errfs: rule %q: no operation %q", text, r.op)
	}
	for _, word := range words[1:] {
		if err := r.set(word); err != nil {
			return nil, fmt.Errorf("errfs: rule %q: %w", text, err)
		}
	}
	return r, nil
}

func (r *rule) set(word string) (err error) {
	key, value, isPair := strings.Cut(word, "=")
	switch {
	case !isPair:
		r.pattern = word
		_, err = path.Match(word, "")
	case key == "dir":
		r.dir = path.Clean(value)
	case key == "nth":
		r.first, err = strconv.Atoi(value)
		r.last = r.first
	case key == "from":
		r.first, err = strconv.Atoi(value)
	case key == "partial":
		r.partial, err = strconv.Atoi(value)
	case key == "err":
		r.err, err = errno(value)
	default:
		err = fmt.Errorf("no attribute %q", key)
	}
	return err
}

func errno(name string) (error, error) {
	for _, e := range []struct {
		name string
		err  error
	}{
		{"EIO", syscall.EIO},
		{"ENOSPC", syscall.ENOSPC},
		{"EACCES", syscall.EACCES},
		{"EROFS", syscall.EROFS},
		{"EMFILE", syscall.EMFILE},
		{"ENOENT", syscall.ENOENT},
		{"EEXIST", syscall.EEXIST},
	} {
		if e.name == name {
			return e.err, nil
		}
	}
	return nil, fmt.Errorf("no error %q", name)
}

func (r *rule) matches(call *hookfs.Call) bool {
	if r.op != anyOp && r.op != call.Op {
		return false
	}
	return r.matchesName(call.Name) || call.To != "" && r.matchesName(call.To)
}

func (r *rule) matchesName(name string) bool {
	name = path.Clean(name)
	if r.dir != "" && name != r.dir && !strings.HasPrefix(name, strings.TrimSuffix(r.dir, "/")+"/") {
		return false
	}
	if r.pattern == "" {
		return true
	}
	if !strings.Contains(r.pattern, "/") {
		name = path.Base(name)
	}
	ok, _ := path.Match(r.pattern, name) // the pattern was checked by parse
	return ok
}

// due counts a matching call and tells whether it is one that fails.
func (r *rule) due() bool {
	r.seen++
	return r.first <= r.seen && r.seen <= r.last
}
