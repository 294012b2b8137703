package kcat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/compat-tests/matrix"
	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

func TestMatrix(t *testing.T) {
	matrix.Run(t, matrix.Kcat(), func(_ testing.TB, bootstrap string) matrix.Session { return session(bootstrap) })
}

// session is the address of a broker; each command is a run of kcat.
type session string

func (s session) Do(ctx context.Context, c programs.Command, each func(programs.Line)) error {
	switch c.Do {
	case "produce":
		return s.produce(ctx, c)
	case "consume":
		from := map[string]string{"start": "beginning", "end": "end"}[c.From]
		if from == "" {
			from = "s@" + c.From
		}
		return s.read(ctx, each, "-C", "-t", c.Topic, "-o", from, "-c", strconv.Itoa(c.Count))
	case "group":
		return s.read(ctx, each, "-X", "auto.offset.reset=earliest", "-c", strconv.Itoa(c.Count), "-G", c.Group, c.Topic)
	default:
		return s.list(ctx, c, each)
	}
}

// kcat starts it, and hands each line that it prints to a function.
func (s session) kcat(ctx context.Context, stdin string, line func(text []byte) error, args ...string) error {
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", string(s), "-q"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() && err == nil {
		err = line(in.Bytes())
	}
	if failed := cmd.Wait(); failed != nil {
		return fmt.Errorf("kcat %v: %w\n%s", args, failed, &said)
	}
	return err
}

func (s session) produce(ctx context.Context, c programs.Command) error {
	args := []string{"-P", "-t", c.Topic, "-K", ":"}
	if c.Acks != "" {
		args = append(args, "-X", "acks="+c.Acks)
	}
	if c.Codec != "" {
		args = append(args, "-z", c.Codec)
	}
	if c.Idempotent {
		args = append(args, "-X", "enable.idempotence=true", "-E") // it outlives a connection that is lost
	}
	var lines strings.Builder
	for _, r := range c.Records {
		fmt.Fprintf(&lines, "%s:%s\n", *r.Key, *r.Value)
	}
	return s.kcat(ctx, lines.String(), func([]byte) error { return nil }, args...)
}

// message is a record as -J prints it; headers are names and values in turn.
type message struct {
	Partition int32
	Offset    int64
	Time      int64 `json:"ts"`
	Key       *string
	Payload   *string
	Headers   []string
}

func (s session) read(ctx context.Context, each func(programs.Line), args ...string) error {
	return s.kcat(ctx, "", func(text []byte) error {
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		r := programs.Record{Partition: m.Partition, Offset: m.Offset, Time: m.Time, Key: m.Key, Value: m.Payload, Headers: map[string]string{}}
		for i := 0; i+1 < len(m.Headers); i += 2 {
			r.Headers[m.Headers[i]] = m.Headers[i+1]
		}
		each(programs.Line{Record: &r})
		return nil
	}, append([]string{"-J", "-u"}, args...)...)
}

// list answers what metadata has.
func (s session) list(ctx context.Context, c programs.Command, each func(programs.Line)) error {
	args := []string{"-L", "-J"}
	if c.Topic != "" {
		args = append(args, "-t", c.Topic)
	}
	return s.kcat(ctx, "", func(text []byte) error {
		var metadata struct {
			Topics []struct {
				Topic      string
				Partitions []json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &metadata); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		var names []string
		for _, t := range metadata.Topics {
			names = append(names, t.Topic)
		}
		var found any = names
		if c.Do == "describe-topic" {
			found = len(metadata.Topics[0].Partitions)
		}
		result, err := json.Marshal(found)
		each(programs.Line{Result: result})
		return err
	}, args...)
}
