package controller

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

func forwardedCreate(version int16) Call {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = version
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions = "t", 3
	req.Topics = append(req.Topics, topic)
	return Call{Request: req, Principal: "User:alice", Client: netip.MustParseAddr("10.1.2.3")}
}

// A request and its answer survive the way there and back, with old headers and new ones.
func TestEnvelope(t *testing.T) {
	for version := int16(2); version <= 7; version++ {
		call := forwardedCreate(version)
		if version > 2 { // else it counts for nobody
			call.ClientID, call.Metered = "c", true
		}
		env := NewEnvelope(call)
		f, err := OpenEnvelope(env)
		if err != nil {
			t.Fatal(err)
		}
		if f.Key != 19 || f.Version != version || f.Principal != "User:alice" || f.ClientID != call.ClientID || f.Metered != call.Metered || f.Client != call.Client {
			t.Errorf("forwarded %+v", f)
		}
		req := kmsg.RequestForKey(f.Key)
		req.SetVersion(f.Version)
		if err := req.ReadFrom(f.Body); err != nil || req.(*kmsg.CreateTopicsRequest).Topics[0].NumPartitions != 3 {
			t.Errorf("version %d: %v, %+v", version, err, req)
		}
		answer := ErrorResponse(call.Request, kafkaerr.TopicAlreadyExists)
		at := metadata.Position{Index: 300, Term: 4}
		resp, got, err := OpenAnswer(call, SealAnswer(env, f, answer, at, nil))
		if err != nil || got != at {
			t.Fatalf("version %d: position %v, %v", version, got, err)
		}
		if diff := cmp.Diff(answer.AppendTo(nil), resp.AppendTo(nil)); diff != "" {
			t.Error(diff)
		}
	}
}

// Who is not the controller says so, and that is what the sender hears.
func TestEnvelopeCarriesErrors(t *testing.T) {
	call := forwardedCreate(7)
	env := NewEnvelope(call)
	f, err := OpenEnvelope(env)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = OpenAnswer(call, SealAnswer(env, f, nil, metadata.Position{}, errStopped))
	if !errors.Is(err, kafkaerr.NotController) {
		t.Errorf("%v", err)
	}
}

func TestPrincipalInEnvelope(t *testing.T) {
	for given, want := range map[string]string{
		"User:alice": "User:alice", "Group:a:b": "Group:a:b", "User:": "User:", "": "User:ANONYMOUS",
	} {
		if got, err := readPrincipal(appendPrincipal(nil, given)); err != nil || got != want {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
}

// The bytes are from outside: nothing that is cut short or made up may do harm.
func FuzzOpenEnvelope(f *testing.F) {
	good := NewEnvelope(forwardedCreate(7))
	f.Add(good.RequestData, good.RequestPrincipal)
	f.Add(good.RequestData[:9], good.RequestPrincipal[:3])
	f.Fuzz(func(t *testing.T, data, principal []byte) {
		env := kmsg.NewPtrEnvelopeRequest()
		env.RequestData, env.RequestPrincipal = data, principal
		forwarded, err := OpenEnvelope(env)
		if err == nil && len(forwarded.Body) > len(data) {
			t.Errorf("a body of %d bytes in %d", len(forwarded.Body), len(data))
		}
		call := forwardedCreate(7)
		sealed := kmsg.NewPtrEnvelopeResponse()
		sealed.ResponseData = data
		_, _, _ = OpenAnswer(call, sealed)
	})
}
