package conform

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// roundTrip writes transcripts, reads them and writes them again.
func roundTrip(t *testing.T, in []Transcript) {
	t.Helper()
	var first, second bytes.Buffer
	if err := WriteTranscripts(&first, in); err != nil {
		t.Fatal(err)
	}
	out, err := ReadTranscripts(bytes.NewReader(first.Bytes()), 3)
	if err != nil {
		t.Fatalf("%v\n%s", err, first.String())
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("read\n%#v\nwant\n%#v\nfrom\n%s", out, in, first.String())
	}
	if err := WriteTranscripts(&second, out); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%v, written again:\n%s", err, second.String())
	}
}

func TestTranscriptsRoundTrip(t *testing.T) {
	roundTrip(t, []Transcript{
		{Scenario: "metadata/all", Key: 3, Steps: []Step{
			{Label: "v0 no topics", Key: 3, Outcome: "answer", Lines: []Line{
				{Fields: []Field{{"ThrottleMillis", "0"}, {"ClusterID", "cluster"}, {"Topics", "#1"}}},
				{Path: "Topics[0]", Fields: []Field{{"Topic", `"two words"`}, {"Name", `""`}, {"After", `"\"=\n"`}}},
				{Path: "Topics[0].Empty"},
			}},
			{Label: "raw", Key: -1, Outcome: "closed"},
		}},
		{Scenario: "metadata/none", Key: 3},
	})
}

// An id is called after its topic, whose name may be anything.
func TestIDOfATopicWithASpaceRoundTrips(t *testing.T) {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	resp.Version = 6
	name := "a b"
	topic := kmsg.NewDeleteTopicsResponseTopic()
	topic.Topic, topic.TopicID = &name, [16]byte{1}
	resp.Topics = append(resp.Topics, topic)
	s := Step{Label: "a step", Key: 20, Version: 6, Outcome: "answer", Lines: testSymbols().render(resp)}
	roundTrip(t, []Transcript{{Scenario: "ids/spaces", Key: 3, Steps: []Step{s}}})
}

func TestBadTranscripts(t *testing.T) {
	for name, text := range map[string]string{
		"a step before a scenario": "step 0 v3 answer x\n",
		"a line before a step":     "scenario a\n  X=1\n",
		"a step cut short":         "scenario a\nstep 0 v3\n",
		"a step of no API":         "scenario a\nstep x v3 answer y\n",
		"a word out of place":      "scenario a\nwhat\n",
		"a quote left open":        "scenario a\nstep 0 v3 answer y\n  X=\"open\n",
	} {
		if _, err := ReadTranscripts(strings.NewReader(text), 0); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// Whatever a broker answers, its transcript is read back as it was written.
func FuzzTranscripts(f *testing.F) {
	for _, resp := range []kmsg.Response{kmsg.NewPtrMetadataResponse(), kmsg.NewPtrFetchResponse(), kmsg.NewPtrDescribeGroupsResponse()} {
		f.Add(resp.Key(), int16(4), resp.AppendTo(nil), "label")
	}
	batch := Batch{Records: []Record{{Value: []byte("v")}}}.Bytes()
	fetch := kmsg.NewPtrFetchResponse()
	fetch.Version = 12
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "a b"
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.RecordBatches = batch
	topic.Partitions = append(topic.Partitions, partition)
	fetch.Topics = append(fetch.Topics, topic)
	f.Add(int16(1), int16(12), fetch.AppendTo(nil), "records")
	f.Fuzz(func(t *testing.T, key, version int16, answer []byte, text string) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() || len(answer) > 1<<16 {
			return
		}
		resp := req.ResponseKind()
		resp.SetVersion(version)
		s := Step{Label: "a step", Key: key, Version: version, Outcome: "answer"}
		s.Lines = []Line{{Path: "Note", Fields: []Field{{"is", testSymbols().text(text)}}}}
		if resp.ReadFrom(answer) == nil {
			s.Lines = append(s.Lines, testSymbols().render(resp)...)
		}
		roundTrip(t, []Transcript{{Scenario: "fuzz/one", Key: 3, Steps: []Step{s}}})
	})
}
