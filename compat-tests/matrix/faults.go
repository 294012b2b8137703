package matrix

import "fmt"

// maxFaults bounds what a failure prints.
const maxFaults = 10

// faults are what a comparison has found.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func (f *faults) report(r *run) {
	r.t.Helper()
	for _, fault := range (*f)[:min(len(*f), maxFaults)] {
		r.t.Error(fault)
	}
	if more := len(*f) - maxFaults; more > 0 {
		r.t.Errorf("and %d more", more)
	}
}
