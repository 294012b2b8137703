package wire

// Body copies the whole body, regions included, for who wants to look at an answer
// rather than send it: tests of handlers.
func (r *Response) Body() ([]byte, error) {
	body := make([]byte, 0, r.Len())
	from := headerRoom
	for _, placed := range r.regions {
		body = append(body, r.buf.b[from:placed.at]...)
		from = placed.at
		at := len(body)
		body = body[:at+placed.region.Len()]
		if n, err := placed.region.ReadAt(body[at:], 0); n < len(body)-at {
			return nil, shortRegion(err)
		}
	}
	return append(body, r.buf.b[from:r.used]...), nil
}

// Outcome is what the Pending was completed with, for tests of handlers; the zero
// Outcome if it is not complete.
func (p *Pending) Outcome() Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outcome
}
