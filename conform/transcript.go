package conform

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteTranscripts writes transcripts as text:
//
//	scenario produce/acks
//	step 0 v3 answer unknown topic
//	  ThrottleMillis=0 Topics=#1
//	  Topics[0] Topic=$nope Partitions=#1
func WriteTranscripts(w io.Writer, transcripts []Transcript) error {
	b := bufio.NewWriter(w)
	for i, t := range transcripts {
		if i > 0 {
			fmt.Fprintln(b)
		}
		fmt.Fprintf(b, "scenario %s\n", t.Scenario)
		for _, s := range t.Steps {
			fmt.Fprintf(b, "step %d v%d %s %s\n", s.Key, s.Version, s.Outcome, s.Label)
			for _, l := range s.Lines {
				fmt.Fprintf(b, "  %s\n", l)
			}
		}
	}
	return b.Flush()
}

// ReadTranscripts reads what WriteTranscripts wrote; key is their scenarios' API.
func ReadTranscripts(r io.Reader, key int16) (transcripts []Transcript, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 64<<20)
	for n := 1; in.Scan(); n++ {
		if transcripts, err = readLine(transcripts, in.Text(), key); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return transcripts, in.Err()
}

func readLine(all []Transcript, text string, key int16) ([]Transcript, error) {
	if name, ok := strings.CutPrefix(text, "scenario "); ok {
		return append(all, Transcript{Scenario: name, Key: key}), nil
	}
	if text == "" || strings.HasPrefix(text, "#") {
		return all, nil
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%q before the first scenario", text)
	}
	t := &all[len(all)-1]
	if rest, ok := strings.CutPrefix(text, "step "); ok {
		step, err := readStep(rest)
		t.Steps = append(t.Steps, step)
		return all, err
	}
	line, ok := strings.CutPrefix(text, "  ")
	if !ok || len(t.Steps) == 0 {
		return nil, fmt.Errorf("%q is neither scenario, step nor line", text)
	}
	s := &t.Steps[len(t.Steps)-1]
	l, err := parseLine(line)
	s.Lines = append(s.Lines, l)
	return all, err
}

func readStep(text string) (s Step, err error) {
	parts := strings.SplitN(text, " ", 4)
	if len(parts) != 4 {
		return s, fmt.Errorf("step %q", text)
	}
	key, err := strconv.ParseInt(parts[0], 10, 16)
	if err != nil {
		return s, err
	}
	version, err := strconv.ParseInt(strings.TrimPrefix(parts[1], "v"), 10, 16)
	return Step{Label: parts[3], Key: int16(key), Version: int16(version), Outcome: parts[2]}, err
}

// parseLine reads what Line.String wrote.
func parseLine(text string) (l Line, err error) {
	for text != "" {
		word, rest := text, ""
		if space := strings.IndexByte(text, ' '); space >= 0 {
			word, rest = text[:space], text[space+1:]
		}
		name, value, isField := strings.Cut(word, "=")
		switch {
		case !isField:
			l.Path = word
		case strings.HasPrefix(value, `"`):
			quoted, err := strconv.QuotedPrefix(text[len(name)+1:])
			if err != nil {
				return l, fmt.Errorf("value of %s in %q: %w", name, text, err)
			}
			l.Fields = append(l.Fields, Field{name, quoted})
			rest = strings.TrimPrefix(text[len(name)+1+len(quoted):], " ")
		default:
			l.Fields = append(l.Fields, Field{name, value})
		}
		text = rest
	}
	return l, nil
}
