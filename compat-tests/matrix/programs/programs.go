// Package programs is what the programs in Go have in common. Each drives one client
// library in a folder of its own and is started by package matrix: it reads commands from
// standard input, one JSON object a line, and answers each with lines of JSON of which the
// last has "done" or "error".
package programs

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Command is what a program is told. Which fields count depends on Do; see package matrix.
type Command struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic,omitempty"`
	Group      string            `json:"group,omitempty"`
	Acks       string            `json:"acks,omitempty"`       // 0, 1, all; "": the library's default
	Codec      string            `json:"codec,omitempty"`      // "": the library's default
	Idempotent bool              `json:"idempotent,omitempty"` // false: the library's default
	Records    []Record          `json:"records,omitempty"`
	From       string            `json:"from,omitempty"` // start, end, or milliseconds since 1970
	Rack       string            `json:"rack,omitempty"` // of who consumes
	Partitions int               `json:"partitions,omitempty"`
	Count      int               `json:"count,omitempty"`
	Configs    map[string]string `json:"configs,omitempty"`
	Offset     int64             `json:"offset,omitempty"`
}

// Record is a record to produce, or one that has been read.
type Record struct {
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Time      int64             `json:"time,omitempty"` // milliseconds since 1970; 0: now
	Key       *string           `json:"key"`
	Value     *string           `json:"value"`
	Headers   map[string]string `json:"headers,omitempty"`
}

// Line is what a program prints.
type Line struct {
	Record *Record         `json:"record,omitempty"` // that was read
	Acked  *Acked          `json:"acked,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // of a question
	Done   bool            `json:"done,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Acked is where a record of the command has been written.
type Acked struct {
	Index     int   `json:"index"`
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// patience is how long a command may take.
const patience = 50 * time.Second

// Out is where a command's results go.
type Out struct{ json *json.Encoder }

// Record prints one that was read.
func (o Out) Record(r Record) error { return o.json.Encode(Line{Record: &r}) }

// Acked prints one that was written.
func (o Out) Acked(index int, partition int32, offset int64) error {
	return o.json.Encode(Line{Acked: &Acked{Index: index, Partition: partition, Offset: offset}})
}

// Result prints what a question has found.
func (o Out) Result(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.json.Encode(Line{Result: text})
}

// Serve carries out commands until standard input ends. The program's only argument is
// the address of a broker.
func Serve(do func(ctx context.Context, bootstrap string, c Command, out Out) error) {
	out := Out{json.NewEncoder(os.Stdout)}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		line := Line{Done: true}
		if err := one(in.Bytes(), out, do); err != nil {
			line = Line{Error: err.Error()}
		}
		if err := out.json.Encode(line); err != nil {
			os.Exit(1)
		}
	}
}

func one(text []byte, out Out, do func(context.Context, string, Command, Out) error) error {
	var c Command
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := do(ctx, os.Args[1], c, out); err != nil {
		return fmt.Errorf("%s: %w", c.Do, err)
	}
	return nil
}

// Bytes is a text as a record has it, nil for none.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Text is the bytes of a record as a command has them.
func Text(b []byte) *string {
	if b == nil {
		return nil
	}
	text := string(b)
	return &text
}
