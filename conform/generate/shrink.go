package generate

// shrinking makes a sequence smaller that differs.
type shrinking struct {
	budget int
	least  Finding
	play   func(Sequence) ([]Finding, error)
}

// run takes out halves, then quarters, down to single steps, until nothing can go.
func (s *shrinking) run() error {
	for size := (len(s.least.Sequence.Steps) + 1) / 2; size > 0 && s.budget > 0; {
		before := len(s.least.Sequence.Steps)
		if err := s.round(size); err != nil {
			return err
		}
		if after := len(s.least.Sequence.Steps); after == before || size > after {
			size /= 2
		}
	}
	return nil
}

// round tries to do without each run of size steps, the last one first.
func (s *shrinking) round(size int) error {
	for end := len(s.least.Sequence.Steps); end > 0 && s.budget > 0; end -= size {
		steps := s.least.Sequence.Steps
		if end > len(steps) {
			continue
		}
		less := Sequence{Seed: s.least.Sequence.Seed}
		less.Steps = append(append(less.Steps, steps[:max(0, end-size)]...), steps[end:]...)
		s.budget--
		found, err := s.play(less)
		if err != nil {
			return err
		}
		if len(found) == 1 && found[0].same(s.least) {
			s.least = found[0]
		}
	}
	return nil
}
