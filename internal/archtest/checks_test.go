package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// Each check returns a line for each violation.

func checkLayers(m *module) (broken []string) {
	for _, dir := range m.dirs() {
		from, known := layerOf(dir)
		if !known {
			broken = append(broken, fmt.Sprintf("%s: in no layer; give it a line in the table", dir))
			continue
		}
		for _, f := range m.packages[dir] {
			for _, imported := range f.imports() {
				if to, ours := layerOf(imported); ours && to > from {
					broken = append(broken, fmt.Sprintf("%s (layer %d) imports %s (layer %d)", f.name, from, imported, to))
				}
			}
		}
	}
	return broken
}

func layerOf(name string) (layer int, known bool) {
	longest := -1
	for _, l := range layers {
		if matches(l.pattern, name) && len(l.pattern) > longest {
			layer, longest = l.layer, len(l.pattern)
		}
	}
	return layer, longest >= 0
}

func checkBans(m *module) (broken []string) {
	for _, ban := range bans {
		m.eachFile(ban.who, ban.in, func(f *file) {
			for _, imported := range f.imports() {
				if matchesAny(ban.what, imported) {
					broken = append(broken, fmt.Sprintf("%s imports %s: %s", f.name, imported, ban.why))
				}
			}
		})
	}
	return broken
}

func checkHomes(m *module) (broken []string) {
	for _, home := range homes {
		m.eachFile([]string{"..."}, home.in, func(f *file) {
			if matchesAny(home.where, path.Dir(f.name)) {
				return
			}
			for _, imported := range f.imports() {
				if matchesAny(home.what, imported) {
					broken = append(broken, fmt.Sprintf("%s imports %s, which lives in %s alone: %s",
						f.name, imported, strings.Join(home.where, ", "), home.why))
				}
			}
		})
	}
	return broken
}

// eachFile visits the written (not generated) files of the packages.
func (m *module) eachFile(who []string, in scope, visit func(*file)) {
	for _, dir := range m.dirs() {
		if !matchesAny(who, dir) {
			continue
		}
		for _, f := range m.packages[dir] {
			if f.scope()&in != 0 && !f.generated() {
				visit(f)
			}
		}
	}
}

func checkCalls(m *module) (broken []string) {
	for _, rule := range calls {
		m.eachFile(rule.who, rule.in, func(f *file) {
			dir := path.Dir(f.name)
			if matchesAny(rule.except, dir) || rule.inBubble && m.hasBubbles(dir) {
				return
			}
			for _, call := range rule.call {
				for _, place := range uses(f, call) {
					broken = append(broken, fmt.Sprintf("%s: %s: %s", place, call, rule.why))
				}
			}
		})
	}
	return broken
}

// hasBubbles tells whether a package's tests run in virtual time.
func (m *module) hasBubbles(dir string) bool {
	return slices.ContainsFunc(m.packages[dir], func(f *file) bool { return f.importName("testing/synctest") != "" })
}

// uses finds the places where f mentions a function such as "time.Sleep".
func uses(f *file, function string) (places []string) {
	pkg, name, _ := strings.Cut(function, ".")
	local := f.importName(pkg)
	if local == "" {
		return nil
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && isSelector(s, local, name) {
			places = append(places, f.line(s))
		}
		return true
	})
	return places
}

func isSelector(s *ast.SelectorExpr, pkg, name string) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}

func checkDocs(m *module) (broken []string) {
	for _, dir := range m.dirs() {
		if problem := docProblem(m.packages[dir]); problem != "" {
			broken = append(broken, dir+": "+problem)
		}
	}
	return broken
}

func docProblem(files []*file) string {
	for _, f := range files {
		if path.Base(f.name) != "doc.go" {
			continue
		}
		text := f.ast.Doc.Text()
		start := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			start = "Command "
		}
		switch {
		case !strings.HasPrefix(text, start):
			return fmt.Sprintf("the comment of doc.go does not begin with %q", start)
		case len(strings.Fields(text)) < minDocWords:
			return "doc.go does not say what the package is responsible for"
		}
		return ""
	}
	return "no doc.go that explains the package"
}

func checkSizes(m *module) (broken []string) {
	m.eachFile([]string{"..."}, production, func(f *file) {
		if n := f.lines(f.ast); n > maxFileLines {
			broken = append(broken, fmt.Sprintf("%s has %d lines, more than %d", f.name, n, maxFileLines))
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.lines(fn); n > maxFunctionLines {
				broken = append(broken, fmt.Sprintf("%s: %s has %d lines, more than %d", f.line(fn), fn.Name.Name, n, maxFunctionLines))
			}
		}
	})
	return broken
}

// checkState refuses what makes two brokers in one process, or two test bubbles, share
// state: init functions and variables of package sync or sync/atomic at package level.
func checkState(m *module) (broken []string) {
	m.eachFile([]string{"..."}, everywhere, func(f *file) {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					broken = append(broken, f.line(d)+": init function: what it does belongs into a constructor")
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && holdsState(f, v) {
						broken = append(broken, fmt.Sprintf("%s: %s is shared by all brokers of a process: put it into a struct that Options carry",
							f.line(v), v.Names[0].Name))
					}
				}
			}
		}
	})
	return broken
}

// holdsState is true for var x sync.Pool, x = sync.Pool{…}, x = &sync.Pool{…} and the
// same with sync/atomic.
func holdsState(f *file, v *ast.ValueSpec) bool {
	if isStateType(f, v.Type) {
		return true
	}
	for _, value := range v.Values {
		if u, ok := value.(*ast.UnaryExpr); ok {
			value = u.X
		}
		if lit, ok := value.(*ast.CompositeLit); ok && isStateType(f, lit.Type) {
			return true
		}
	}
	return false
}

func isStateType(f *file, t ast.Expr) bool {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X // atomic.Pointer[T]
	}
	s, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && (x.Name == f.importName("sync") || x.Name == f.importName("sync/atomic"))
}
