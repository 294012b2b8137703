package wire

import (
	"fmt"
	"testing"
)

// One request after the other on one connection.
func BenchmarkEcho(b *testing.B) {
	r := newSocketRig(b, Options{Handler: lean})
	conn := r.connect()
	frame, answer := metadata(1, string(make([]byte, 100))), make([]byte, 8+100)
	b.ReportAllocs()
	for b.Loop() {
		exchange(b, conn, frame, answer)
	}
}

// Sixteen requests in flight on one connection; the figure is for one of them.
func BenchmarkEchoPipelined(b *testing.B) {
	const depth = 16
	r := newSocketRig(b, Options{Handler: lean})
	conn := r.connect()
	var frames []byte
	for i := range depth {
		frames = append(frames, metadata(int32(i), string(make([]byte, 100)))...)
	}
	answers := make([]byte, depth*(8+100))
	b.ReportAllocs()
	for i := 0; i < b.N; i += depth {
		exchange(b, conn, frames, answers)
	}
}

// A batch of a megabyte in, a few bytes out.
func BenchmarkLargeRequest(b *testing.B) {
	r := newSocketRig(b, Options{Handler: HandlerFunc(nothing)})
	conn := r.connect()
	frame, answer := metadata(1, string(make([]byte, 1<<20))), make([]byte, 8)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		exchange(b, conn, frame, answer)
	}
}

// A megabyte of a file out, by the kernel.
func BenchmarkFileRegion(b *testing.B) {
	file, _ := randomFile(b, 1<<20)
	r := newSocketRig(b, Options{Handler: regionHandler(&fileRegion{file: file, len: 1 << 20})})
	conn := r.connect()
	frame, answer := metadata(1, ""), make([]byte, 8+4+1<<20)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		exchange(b, conn, frame, answer)
	}
}

// The same with a few bytes behind it, as Fetch answers have them from version 12 on.
func BenchmarkFileRegionWithMoreBehind(b *testing.B) {
	for _, size := range []int{128 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			file, _ := randomFile(b, size)
			r := newSocketRig(b, Options{Handler: regionWithTail(&fileRegion{file: file, len: size})})
			conn := r.connect()
			frame, answer := metadata(1, ""), make([]byte, 8+4+size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				exchange(b, conn, frame, answer)
			}
		})
	}
}
