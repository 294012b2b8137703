package conform

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// maxDifferences bounds the differences that a report keeps in words; all are counted.
const maxDifferences = 10_000

// Counts are steps: all, those that are equal, those that differ as explained, and those
// that differ otherwise.
type Counts struct {
	Steps     int `json:"steps"`
	Same      int `json:"same"`
	Explained int `json:"explained"`
	Different int `json:"different"`
}

func (c *Counts) add(steps, explained, different int) {
	c.Steps += steps
	c.Explained += explained
	c.Different += different
	c.Same = c.Steps - c.Explained - c.Different
}

// Report is what a run found, in numbers for each API and in words for each difference.
type Report struct {
	Broker    string `json:"broker"`
	Reference string `json:"reference"`
	// Passed says that nothing unexplained differs.
	Passed bool `json:"passed"`
	Counts
	APIs []APIReport `json:"apis"`
	// Differences that nothing explains, at most 10,000.
	Differences []Difference `json:"differences"`
	// Failures are scenarios that could not run to their end.
	Failures []string `json:"failures"`
	// Skipped are scenarios that did not run, with the reason.
	Skipped []string `json:"skipped"`
	// Unused are lines of explanations that explained nothing.
	Unused []string `json:"unusedExplanations"`
}

// APIReport counts the steps of the scenarios that are about an API.
type APIReport struct {
	Key        int16  `json:"key"`
	Name       string `json:"name"`
	Advertised bool   `json:"advertised"`
	Counts
}

// Judge holds outcomes beside the transcripts of a reference, by scenario's name.
// Explanations may be nil.
func Judge(t *Target, outcomes []Outcome, reference map[string]Transcript, why Explanations) Report {
	report := Report{ // empty lists, not null, in JSON
		Broker: t.addr, Differences: []Difference{}, Failures: []string{}, Skipped: []string{}, Unused: []string{},
	}
	counts := map[int16]*APIReport{}
	for _, api := range APIs() {
		counts[api.Key] = &APIReport{Key: api.Key, Name: api.Name, Advertised: t.Advertises(api.Key)}
	}
	for _, o := range outcomes {
		want, recorded := reference[o.Scenario.Name]
		switch {
		case o.Skipped != "":
			report.Skipped = append(report.Skipped, o.Scenario.Name+": "+o.Skipped)
		case !recorded:
			report.Failures = append(report.Failures, o.Scenario.Name+": the reference has no transcript of it")
		default:
			if o.Err != nil { // what was done until then is compared all the same
				report.Failures = append(report.Failures, o.Err.Error())
				want.Steps = want.Steps[:min(len(want.Steps), len(o.Transcript.Steps))]
			}
			report.add(counts[o.Scenario.Key], want, o.Transcript, why)
		}
	}
	for _, api := range APIs() {
		report.APIs = append(report.APIs, *counts[api.Key])
	}
	report.Unused = append(report.Unused, why.Unused()...)
	report.judge()
	return report
}

func (r *Report) add(api *APIReport, want, got Transcript, why Explanations) {
	bad, explained := map[int]bool{}, map[int]bool{}
	for _, d := range Compare(want, got) {
		if why.Explain(d) != nil {
			explained[d.Step] = true
			continue
		}
		bad[d.Step] = true
		if len(r.Differences) < maxDifferences {
			r.Differences = append(r.Differences, d)
		}
	}
	for step := range bad {
		delete(explained, step)
	}
	steps := max(len(want.Steps), len(got.Steps))
	api.add(steps, len(explained), len(bad))
	r.Counts.add(steps, len(explained), len(bad))
}

// Forgive takes no offence at explanations that explain nothing: not all scenarios ran.
func (r *Report) Forgive() {
	r.Unused = []string{}
	r.judge()
}

func (r *Report) judge() {
	r.Passed = r.Different == 0 && len(r.Failures) == 0 && len(r.Unused) == 0
}

// WriteText writes the report as a table, followed by at most limit differences.
func (r *Report) WriteText(w io.Writer, limit int) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "KEY\tAPI\tSTEPS\tSAME\tEXPLAINED\tDIFFERENT\n")
	var absent []string
	for _, api := range r.APIs {
		switch {
		case !api.Advertised:
			absent = append(absent, api.Name)
		case api.Steps > 0:
			fmt.Fprintf(tw, "%d\t%s\t%d\t%d\t%d\t%d\n", api.Key, api.Name, api.Steps, api.Same, api.Explained, api.Different)
		}
	}
	fmt.Fprintf(tw, "\tall\t%d\t%d\t%d\t%d\n", r.Steps, r.Same, r.Explained, r.Different)
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(absent) > 0 {
		fmt.Fprintf(w, "not advertised: %s\n", strings.Join(absent, ", "))
	}
	return r.writeFindings(w, limit)
}

func (r *Report) writeFindings(w io.Writer, limit int) error {
	for _, f := range r.Failures {
		fmt.Fprintf(w, "failed: %s\n", f)
	}
	for i, d := range r.Differences {
		if i == limit {
			fmt.Fprintf(w, "… and %d more differences\n", len(r.Differences)-limit)
			break
		}
		fmt.Fprintf(w, "differs: %s\n", d)
	}
	for _, line := range r.Unused {
		fmt.Fprintf(w, "explains nothing: %s\n", line)
	}
	for _, s := range r.Skipped {
		if !strings.HasSuffix(s, NotAdvertised) {
			fmt.Fprintf(w, "skipped: %s\n", s)
		}
	}
	return nil
}
