package bench

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// leftFree is the free memory that a measurement may begin with.
const leftFree = 512 << 20

// takeMemory gives the free memory of the machine to the page cache, as a broker's machine
// has it after a day: a sparse file is read until little is free. Free memory of a virtual
// machine goes back to its host after a second or two, and who takes it again pays for it:
// 2.5 s of system time for a gigabyte were measured, more than a broker spends on one, on
// whichever of them came first.
func takeMemory(b *testing.B) {
	b.Helper()
	filler, err := os.Create(filepath.Join(b.TempDir(), "filler"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { filler.Close() })
	if err := filler.Truncate(memory(b, "MemTotal")); err != nil {
		b.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for memory(b, "MemFree") > leftFree {
		for range 64 {
			if _, err := filler.Read(block); err == io.EOF {
				return // a limit of the memory is lower than what the machine has
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// memory is one line of /proc/meminfo, in bytes.
func memory(b *testing.B, line string) int64 {
	b.Helper()
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		b.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + line + `: +(\d+) kB$`).FindSubmatch(info)
	if found == nil {
		b.Fatalf("no %s in /proc/meminfo", line)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}
