package handlers

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A string that Kafka does not read closes the connection, wherever in a request it is:
// the two bytes that records have for its length would make another string of it.
func TestStringsBeyondTheirLengthInRecordsAreClosed(t *testing.T) {
	requests := map[string]func(s string) kmsg.Request{
		"group": func(s string) kmsg.Request {
			r := kmsg.NewPtrJoinGroupRequest()
			r.Version, r.Group = 9, s
			return r
		},
		"nullable instance id": func(s string) kmsg.Request {
			r := kmsg.NewPtrJoinGroupRequest()
			r.Version, r.InstanceID = 9, &s
			return r
		},
		"metadata of an offset": func(s string) kmsg.Request {
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Version, r.Group = 8, "g"
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Metadata = &s
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic, topic.Partitions = "t", []kmsg.OffsetCommitRequestTopicPartition{p}
			r.Topics = append(r.Topics, topic)
			return r
		},
		"one of several groups": func(s string) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Version, r.Groups = 5, []string{"g", s}
			return r
		},
		"topic of a Produce": func(s string) kmsg.Request {
			r := produceRequest(9, -1, oneRecord())
			r.Topics[0].Topic = s
			return r
		},
	}
	f := newFixture(t)
	for name, request := range requests {
		for size, want := range map[int]error{maxString: nil, maxString + 1: errBadBody, 1<<16 + 5: errBadBody} {
			out := f.h.Handle(t.Context(), f.request(request(strings.Repeat("s", size))))
			if !errors.Is(out.Close, want) {
				t.Errorf("%s of %d bytes: %v", name, size, out.Close)
			}
			if out.Response != nil {
				out.Response.Release()
			}
		}
	}
}
