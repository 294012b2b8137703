package conform

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxExplained bounds the explanations: a broker with more differs too much.
const maxExplained = 30

// Explanation is one line of explained.txt: a difference that is meant. Nothing in it is
// a pattern; an optional scenario narrows it.
//
//	API     versions  field                        item                 row              [scenario]
//	CreateTopics 5-7  Topics.Configs.extra         durability           topic-durability
type Explanation struct {
	Key              int16
	MinV, MaxV       int16
	Field            string
	Item             string // name of a configuration key, "-" for none
	Row              string // of docs/divergence.md
	Scenario         string // "" for every one
	text             string
	timesItExplained int
}

// Explanations are the lines of an explained.txt.
type Explanations []*Explanation

// ReadExplanations reads an explained.txt. Lines that are empty or begin with "#" are
// comments.
func ReadExplanations(r io.Reader) (all Explanations, err error) {
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		e, err := readExplanation(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, e)
	}
	if len(all) > maxExplained {
		return nil, fmt.Errorf("%d explanations, at most %d may be", len(all), maxExplained)
	}
	return all, in.Err()
}

func readExplanation(text string) (*Explanation, error) {
	f := strings.Fields(text)
	if len(f) < 5 || len(f) > 6 {
		return nil, fmt.Errorf("%q: want API, versions, field, item, row and perhaps a scenario", text)
	}
	e := &Explanation{Key: -2, Field: f[2], Item: strings.TrimPrefix(f[3], "-"), Row: f[4], text: text}
	if f[0] == "raw" {
		e.Key = -1
	}
	for _, api := range APIs() {
		if api.Name == f[0] {
			e.Key = api.Key
		}
	}
	for key := range int16(kmsg.MaxKey + 1) { // what nodes alone send each other
		if e.Key == -2 && kmsg.NameForKey(key) == f[0] {
			e.Key = key
		}
	}
	if e.Key == -2 {
		return nil, fmt.Errorf("%q: no API is called %s", text, f[0])
	}
	if len(f) == 6 {
		e.Scenario = f[5]
	}
	lo, hi, isRange := strings.Cut(f[1], "-")
	if !isRange {
		hi = lo
	}
	min, err := strconv.ParseInt(lo, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q: versions: %w", text, err)
	}
	max, err := strconv.ParseInt(hi, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q: versions: %w", text, err)
	}
	e.MinV, e.MaxV = int16(min), int16(max)
	return e, nil
}

// Explain finds the line that explains d, and notes that it occurred.
func (all Explanations) Explain(d Difference) *Explanation {
	for _, e := range all {
		if e.Key == d.Key && e.MinV <= d.Version && d.Version <= e.MaxV && e.Field == d.Field && e.Item == d.Item &&
			(e.Scenario == "" || e.Scenario == d.Scenario) {
			e.timesItExplained++
			return e
		}
	}
	return nil
}

// Unused are the lines that explained nothing.
func (all Explanations) Unused() (lines []string) {
	for _, e := range all {
		if e.timesItExplained == 0 {
			lines = append(lines, e.text)
		}
	}
	return lines
}

// Rows are the rows of docs/divergence.md that the lines name.
func (all Explanations) Rows() (rows []string) {
	for _, e := range all {
		rows = append(rows, e.Row)
	}
	return rows
}
