package group

import "testing"

// The numbers are Java's.
func TestJavaHash(t *testing.T) {
	for _, c := range []struct {
		s                       string
		hash, partition, length int
	}{
		{"", 0, 0, 0},
		{"a", 97, 47, 1},
		{"my-group", -1906497762, 12, 8},
		{"connect-cluster", 1440343063, 13, 15},
		{"console-consumer-12345", 158455506, 6, 22},
		{"åäö", 227383, 33, 3},
		{"𝕒𝕓", 1705122875, 25, 4},
		{"polygenelubricants", -2147483648, 0, 18},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 653909345, 45, 49},
	} {
		if h := javaHash(c.s); h != int32(c.hash) {
			t.Errorf("hash of %q is %d, want %d", c.s, h, c.hash)
		}
		if p := PartitionFor(c.s, 50); p != int32(c.partition) {
			t.Errorf("partition of %q is %d, want %d", c.s, p, c.partition)
		}
		if n := javaLength(c.s); n != c.length {
			t.Errorf("length of %q is %d, want %d", c.s, n, c.length)
		}
	}
}

// Which protocol wins a tie, one vote each, as a HashMap of Java 17 has it.
func TestTieOfVotes(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"range", "roundrobin", "range"},
		{"cooperative-sticky", "range", "range"},
		{"sticky", "range", "sticky"},
		{"a", "b", "a"},
		{"compatible", "eager", "compatible"},
		{"sessioned", "compatible", "compatible"},
		{"v1", "v0", "v0"},
		// In the same bucket the first vote wins.
		{"q", "a", "q"},
		{"a", "q", "a"},
	} {
		g := newGroup("g", 0)
		for i, ps := range [][]protocol{{{name: c.a}, {name: c.b}}, {{name: c.b}, {name: c.a}}} {
			g.add(&member{id: string(rune('1' + i)), protocols: ps})
		}
		if got := g.selectProtocol(); got != c.want {
			t.Errorf("%s or %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}
