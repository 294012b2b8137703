package metalog

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
)

// From nothing, or from a clean stop, to a leader that has passed its barrier, on Badger.
func BenchmarkOpenToLeader(b *testing.B) {
	for b.Loop() {
		o := onBadger(b.TempDir())
		o.tune = nil
		for range 2 {
			l, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			now := <-l.Leadership()
			if _, err := l.Barrier(context.Background(), now.Term); err != nil {
				b.Fatal(err)
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// One committed entry after another, and many at once, on Badger.
func BenchmarkPropose(b *testing.B) {
	for _, parallel := range []int{1, 64} {
		b.Run(fmt.Sprint("proposers=", parallel), func(b *testing.B) {
			o := onBadger(b.TempDir())
			o.tune = nil
			l, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			now := <-l.Leadership()
			if _, err := l.Barrier(context.Background(), now.Term); err != nil {
				b.Fatal(err)
			}
			var n atomic.Int64
			b.SetParallelism(parallel)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := create(l, now.Term, fmt.Sprint("t", n.Add(1))); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
