// Package members is what the members in Go have in common: each is a small program in a
// folder of its own, started by package groups.
package members

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// Options are a member's command line.
type Options struct {
	Bootstrap, Topic, Group string
	Name, Instance          string
	SessionTimeout          time.Duration
	Range                   bool // assign by range, which every client knows
}

// Parse reads the command line.
func Parse() (o Options) {
	flag.StringVar(&o.Bootstrap, "bootstrap", "", "address of a broker")
	flag.StringVar(&o.Topic, "topic", "", "topic to read")
	flag.StringVar(&o.Group, "group", "", "group to join")
	flag.StringVar(&o.Name, "name", "", "client id")
	flag.StringVar(&o.Instance, "instance", "", "group.instance.id")
	flag.DurationVar(&o.SessionTimeout, "session", 0, "session timeout")
	flag.BoolVar(&o.Range, "range", false, "assign by range")
	flag.Parse()
	return o
}

// Check ends the program at an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
