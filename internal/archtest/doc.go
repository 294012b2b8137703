// Package archtest holds the module to its architecture. Its tests parse every Go file
// of the module and compare with the tables in rules_test.go:
//
//   - layers: a package imports only its own layer and those below;
//   - bans and homes: who may not import what, and which import lives in one place alone;
//   - calls that some places must not make, such as time.Sleep in a test;
//   - form: each package explains itself in doc.go, no file or function outgrows a reader,
//     no state at package level.
//
// A new package gets a line in the table of layers. To break a rule, change its line, and
// say in the commit why: the reason stands beside each rule.
//
// It reads sources and not the build, so files for other systems are checked as well, and
// a package of the tables need not exist yet. Without goroutines.
package archtest
