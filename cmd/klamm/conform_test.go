package main

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Ctrl-C ends a run at once, and takes its topics with it.
func TestConformIsInterrupted(t *testing.T) {
	_, addr := inProcess(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics := func() (n int) {
		all, err := kadm.NewClient(client).ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all.Names() {
			if strings.HasPrefix(name, "conform-") {
				n++
			}
		}
		return n
	}
	c := start(t, "conform", "-b", addr)
	for topics() == 0 { // it is in the middle of it
		select {
		case code := <-c.code:
			t.Fatalf("it ended with %d:\n%s%s", code, c.out.String(), c.err.String())
		case <-time.After(time.Millisecond):
		}
	}
	c.cancel()
	c.exits(exitFailed, "", "klamm: interrupted")
	if n := topics(); n > 0 {
		t.Errorf("%d topics are left", n)
	}
}
