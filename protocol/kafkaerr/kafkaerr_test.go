package kafkaerr

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestCode(t *testing.T) {
	cases := []struct {
		err  error
		want int16
	}{
		{nil, 0},
		{NotLeaderOrFollower, 6},
		{OffsetOutOfRange, 1},
		{InvalidRecord, 87},
		{fmt.Errorf("append to t-0: %w", NotEnoughReplicas), 19},
		{fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", UnknownTopicID)), 100},
		{errors.Join(io.EOF, KafkaStorageError), 56},
		{New(InvalidConfig, "x must not be negative"), 40},
		{fmt.Errorf("create topic: %w", New(TopicAlreadyExists, "Topic 't' already exists.")), 36},
		{io.EOF, UnknownServerErrorCode},
		{UnknownServerError, UnknownServerErrorCode},
	}
	for _, c := range cases {
		if got := Code(c.err); got != c.want {
			t.Errorf("code of %v is %d, want %d", c.err, got, c.want)
		}
	}
}

func TestMessage(t *testing.T) {
	if got := Message(nil); got != nil {
		t.Errorf("of nil: %q", *got)
	}
	if got := Message(New(InvalidConfig, "x must not be negative")); *got != "x must not be negative" {
		t.Errorf("a detail reads %q, with more than its text", *got)
	}
}

func TestDetailHasItsKind(t *testing.T) {
	err := fmt.Errorf("alter: %w", New(InvalidConfig, "bad"))
	if !errors.Is(err, InvalidConfig) || errors.Is(err, InvalidRequest) {
		t.Error("errors.Is does not find the kind")
	}
	var detail *Detail
	if !errors.As(err, &detail) || detail.Text != "bad" {
		t.Error("errors.As does not find the detail")
	}
}
