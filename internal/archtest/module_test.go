package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const modulePath = "github.com/klamm-mq/klamm"

// module is the parsed sources of one Go module, packages by directory.
type module struct {
	fset     *token.FileSet
	packages map[string][]*file
}

type file struct {
	name string // within the module
	ast  *ast.File
	fset *token.FileSet
}

// parseModule reads a tree; directories that belong to another module (with a go.mod of
// their own) or to no build (testdata, names with a dot or underscore) are left out.
func parseModule(tree fs.FS) (*module, error) {
	m := &module{fset: token.NewFileSet(), packages: map[string][]*file{}}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && skipDir(tree, name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return m.add(tree, name)
	})
	return m, err
}

func skipDir(tree fs.FS, dir string) bool {
	base := path.Base(dir)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	return err == nil
}

func (m *module) add(tree fs.FS, name string) error {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(m.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	m.packages[dir] = append(m.packages[dir], &file{name: name, ast: parsed, fset: m.fset})
	return nil
}

// dirs lists the packages in order.
func (m *module) dirs() []string {
	var dirs []string
	for dir := range m.packages {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

func (f *file) scope() scope {
	if strings.HasSuffix(f.name, "_test.go") {
		return tests
	}
	return production
}

func (f *file) generated() bool { return ast.IsGenerated(f.ast) }

func (f *file) line(n ast.Node) string {
	return f.name + ":" + strconv.Itoa(f.fset.Position(n.Pos()).Line)
}

// lines is how many lines a node spans.
func (f *file) lines(n ast.Node) int {
	return f.fset.Position(n.End()).Line - f.fset.Position(n.Pos()).Line + 1
}

// imports lists what f imports; packages of this module without the module's path.
func (f *file) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused it already
		}
		paths = append(paths, strings.TrimPrefix(p, modulePath+"/"))
	}
	return paths
}

// importName is the name under which f knows a package, or "" if it does not import it.
func (f *file) importName(importPath string) string {
	for _, spec := range f.ast.Imports {
		if spec.Path.Value != strconv.Quote(importPath) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// matches tells whether a directory or import path is covered by a pattern.
func matches(pattern, name string) bool {
	prefix, all := strings.CutSuffix(pattern, "...")
	if !all {
		return name == pattern
	}
	prefix = strings.TrimSuffix(prefix, "/")
	return prefix == "" || name == prefix || strings.HasPrefix(name, prefix+"/")
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}
