package replica

import "slices"

// Of thousands of replicas that a Fetcher has, few are busy. The others are quiet: the leader's
// session fetches them, and there is nothing to be said of them until it has answered something.
// A step looks at those in attention only; a request that begins a session looks at all.

// attend has the next steps look at a replica.
func (f *Fetcher) attend(r *followed) {
	if r.quiet {
		r.quiet = false
		f.quiet--
	}
	if !r.attended {
		r.attended = true
		f.attention = append(f.attention, r)
	}
}

// attendAll is for a session that begins anew: everything is named in it, in order.
func (f *Fetcher) attendAll() {
	f.attention, f.quiet = append(f.attention[:0], f.order...), 0
	for _, r := range f.order {
		r.attended, r.quiet = true, false
	}
}

// settle leaves those alone of which the request under way has said all.
func (f *Fetcher) settle() {
	f.attention = slices.DeleteFunc(f.attention, func(r *followed) bool {
		if r.settled() {
			r.attended, r.quiet = false, true
			f.quiet++
		}
		return r.quiet
	})
}

// settled: one that lacks records may be held back by a throttle at any time, one whose answer
// came full counts for what the others ask.
func (r *followed) settled() bool {
	return r.awaits == nothingElse && r.inSession && !r.news && !r.toForget && r.lag == 0 && !r.full
}

// dismissed leaves those alone that wait for metadata.
func (f *Fetcher) dismissed() {
	f.attention = slices.DeleteFunc(f.attention, func(r *followed) bool {
		if r.awaits == newMetadata {
			r.attended = false
		}
		return !r.attended
	})
}
