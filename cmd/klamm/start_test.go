package main

import "testing"

// What people look for stands below each other.
func TestReadyBlock(t *testing.T) {
	const want = "klamm ready\n" +
		"  listeners   PLAINTEXT://127.0.0.1:9092\n" +
		"  cluster.id  4L6g3nShT-eMCtK--X86sw\n" +
		"  node.id     1\n"
	got := readyBlock([]any{"listeners", "PLAINTEXT://127.0.0.1:9092", "cluster.id", "4L6g3nShT-eMCtK--X86sw", "node.id", int32(1)})
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
