package logstore

// CommitterOptions configure the driver of group commits.
type CommitterOptions struct {
	// OnFlushed is called after every round that moved something, on the committer's
	// goroutine: the next round begins when it returns.
	OnFlushed func([]FlushedLog)
}

// Committer drives the group commits of one directory: one goroutine that runs a round
// whenever it was woken since the last one began. Appends that come while a round is
// syncing share the next one.
type Committer struct {
	d    *Dir
	o    CommitterOptions
	wake chan struct{} // holds one: wakes coalesce
	stop chan struct{}
	done chan struct{}
}

// StartCommitter starts the goroutine. There is one committer per directory.
func StartCommitter(d *Dir, o CommitterOptions) *Committer {
	c := &Committer{
		d:    d,
		o:    o,
		wake: make(chan struct{}, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	go c.run()
	return c
}

// Wake asks for a round. It never blocks.
func (c *Committer) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Stop ends the goroutine after the round in flight. Appends not yet flushed stay so.
func (c *Committer) Stop() {
	close(c.stop)
	<-c.done
}

func (c *Committer) run() {
	defer close(c.done)
	for {
		select {
		case <-c.stop:
			return
		case <-c.wake:
			c.round()
		}
	}
}

func (c *Committer) round() {
	flushed := c.d.Flush()
	if len(flushed) > 0 && c.o.OnFlushed != nil {
		c.o.OnFlushed(flushed)
	}
}
