package memnet

// Cut stops everything that travels from one host to another, in that direction only.
func (n *Network) Cut(from, to string) { n.change(func() { n.cuts[direction{from, to}] = true }) }

// CutBoth stops both directions between two hosts.
func (n *Network) CutBoth(a, b string) {
	n.Cut(a, b)
	n.Cut(b, a)
}

// Heal undoes Cut; what was in flight arrives.
func (n *Network) Heal(from, to string) {
	n.change(func() { delete(n.cuts, direction{from, to}) })
}

// Isolate cuts a host from all others, both ways.
func (n *Network) Isolate(host string) { n.change(func() { n.isolated[host] = true }) }

// Rejoin undoes Isolate; cuts between single hosts stay.
func (n *Network) Rejoin(host string) { n.change(func() { delete(n.isolated, host) }) }

// HealAll undoes every Cut and Isolate.
func (n *Network) HealAll() {
	n.change(func() {
		clear(n.cuts)
		clear(n.isolated)
	})
}

// Crash ends a host's process: its listeners close, its connections are gone, and their
// other ends are reset, once the news can travel.
func (n *Network) Crash(host string) {
	n.mu.Lock()
	var listeners []*listener
	for addr, ln := range n.listeners {
		if addr.Host == host {
			listeners = append(listeners, ln)
		}
	}
	var conns []*Conn
	for c := range n.conns {
		if c.local.Host == host {
			conns = append(conns, c)
		}
	}
	n.mu.Unlock()
	for _, ln := range listeners {
		_ = ln.Close()
	}
	for _, c := range conns {
		c.reset()
	}
}

// change alters the faults and tells every stream.
func (n *Network) change(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn()
	for c := range n.conns {
		n.apply(c)
	}
	n.signal()
}

// apply sets the faults of what c sends. The other end sets those of the way back.
func (n *Network) apply(c *Conn) {
	there := n.isCut(c.local.Host, c.remote.Host)
	back := n.isCut(c.remote.Host, c.local.Host)
	c.out.setCut(there, back)
	c.in.setCut(back, there)
}

func (n *Network) isCut(from, to string) bool {
	if from == to {
		return false
	}
	return n.cuts[direction{from, to}] || n.isolated[from] || n.isolated[to]
}
