package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/klamm-mq/klamm/logstore/dump"
)

// table is rows under names of columns: for people aligned under a head, for programs one
// JSON object a line. The member of a column IN SYNC is in_sync.
type table struct {
	columns []string
	w       *tabwriter.Writer // nil: JSON
	json    *json.Encoder
	head    string // what of the head is not written yet
}

// cell is a value that a table for people shows as text.
type cell struct {
	value any
	text  string
}

// orDash is a string, for people a dash where it is empty and for programs null.
func orDash(s string) cell {
	if s == "" {
		return cell{nil, "-"}
	}
	return cell{s, s}
}

func newTable(out io.Writer, output string, columns ...string) (*table, error) {
	asJSON, err := isJSON(output)
	if err != nil {
		return nil, err
	}
	t := &table{columns: columns}
	if asJSON {
		t.json = json.NewEncoder(out)
		t.json.SetEscapeHTML(false)
		return t, nil
	}
	t.w = tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	t.head = strings.Join(columns, "\t") + "\n"
	return t, nil
}

// showHead writes the head also of a table that stays empty.
func (t *table) showHead() {
	if t.w != nil {
		fmt.Fprint(t.w, t.head)
		t.head = ""
	}
}

// row adds one value, or cell, for each column.
func (t *table) row(values ...any) error {
	if t.w == nil {
		return t.object(values)
	}
	t.showHead()
	texts := make([]string, len(values))
	for i, v := range values {
		if c, ok := v.(cell); ok {
			texts[i] = c.text
			continue
		}
		texts[i] = fmt.Sprint(v)
	}
	_, err := fmt.Fprintln(t.w, strings.Join(texts, "\t"))
	return err
}

func (t *table) object(values []any) error {
	fields := make([]dump.Field, len(values))
	for i, v := range values {
		if c, ok := v.(cell); ok {
			v = c.value
		}
		fields[i] = dump.Field{Name: strings.ReplaceAll(strings.ToLower(t.columns[i]), " ", "_"), Value: v}
	}
	return t.json.Encode(dump.Object(fields))
}

func (t *table) flush() error {
	if t.w == nil {
		return nil
	}
	return t.w.Flush()
}
