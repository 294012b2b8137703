package metamorphic

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	seeds   = flag.Int("meta.seeds", 15, "how many lists of operations")
	configs = flag.Int("meta.configs", 8, "how many configurations for each")
	length  = flag.Int("meta.ops", 150, "operations in a list")
	oneSeed = flag.Uint64("meta.seed", 0, "run this list alone")
)

// TestEqualHistories is the point of the package.
func TestEqualHistories(t *testing.T) {
	for seed := uint64(1); seed <= uint64(*seeds); seed++ {
		if *oneSeed != 0 {
			seed = *oneSeed
		}
		r := rand.New(rand.NewPCG(seed, 1))
		ops := Generate(r, *length)
		want, err := Run(ops, Plain())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for range *configs {
			c := RandomConfig(r)
			if got, err := Run(ops, c); err != nil || !slices.Equal(got, want) {
				report(t, seed, ops, c)
				return
			}
		}
		if *oneSeed != 0 {
			return
		}
	}
}

func differs(ops []Op, c Config) string {
	want, err := Run(ops, Plain())
	if err != nil {
		return ""
	}
	got, err := Run(ops, c)
	if err != nil {
		return err.Error()
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Sprintf("operation %d %v\n got %s\nwant %s", i, ops[i], got[i], want[i])
		}
	}
	return ""
}

func report(t *testing.T, seed uint64, ops []Op, c Config) {
	small := Simplify(ops, func(ops []Op) bool { return differs(ops, c) != "" })
	t.Errorf("seed %d under %v:\n%s\nsimplified:\n%s%s", seed, c, differs(ops, c), Describe(small), differs(small, c))
}

// TestSimplify: what is left is what it takes.
func TestSimplify(t *testing.T) {
	ops := Generate(rand.New(rand.NewPCG(1, 1)), 200)
	fails := func(ops []Op) bool {
		at := slices.IndexFunc(ops, func(o Op) bool { return o.Kind == Truncate })
		return at >= 0 && slices.ContainsFunc(ops[at:], func(o Op) bool { return o.Kind == Repeat })
	}
	if small := Simplify(ops, fails); len(small) != 2 || !fails(small) {
		t.Errorf("left are %v", small)
	}
}
