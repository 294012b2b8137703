package crash

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// A record's value is "writer run number padding". The first three name it, and the
// padding follows from the number, so that a value can be checked as a whole.

// maxPadding makes segments of a megabyte roll many times in a run.
const maxPadding = 400

const padding = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-"

// value is what record number n of a writer's run holds.
func value(writer string, run, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d ", writer, run, n)
	for i := range (n*7919 + run) % maxPadding {
		b.WriteByte(padding[(n+i)%len(padding)])
	}
	return b.String()
}

// name is a value taken apart.
type name struct {
	writer string
	run, n int
}

func (n name) String() string { return fmt.Sprintf("%s/%d/%d", n.writer, n.run, n.n) }

// parse finds out which record a value is, and reports false if nobody wrote it so.
func parse(v string) (name, bool) {
	parts := strings.SplitN(v, " ", 4)
	if len(parts) != 4 {
		return name{}, false
	}
	run, err1 := strconv.Atoi(parts[1])
	n, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || value(parts[0], run, n) != v {
		return name{}, false
	}
	return name{parts[0], run, n}, true
}

// upTo is a random duration below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
