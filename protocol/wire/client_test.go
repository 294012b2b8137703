package wire

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol"
)

// oneBroker answers what a client asks first.
func oneBroker(_ context.Context, r *Request) Outcome {
	req := kmsg.RequestForKey(r.Key)
	req.SetVersion(r.Version)
	if err := req.ReadFrom(r.Body); err != nil {
		return Outcome{Close: err}
	}
	answer := req.ResponseKind()
	switch m := answer.(type) {
	case *kmsg.ApiVersionsResponse:
		for api := range protocol.Served() {
			m.ApiKeys = append(m.ApiKeys, kmsg.ApiVersionsResponseApiKey{
				ApiKey: api.Key, MinVersion: api.AdvertisedMin, MaxVersion: api.MaxVersion,
			})
		}
	case *kmsg.MetadataResponse:
		m.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "broker-1", Port: 9092}}
		m.ControllerID = 1
	}
	resp := r.NewResponse()
	resp.Append(answer.AppendTo)
	return Outcome{Response: resp}
}

// A real client understands our headers, old and flexible.
func TestRealClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Handler: HandlerFunc(oneBroker)})
		host := r.net.Host("client")
		client, err := kgo.NewClient(
			kgo.SeedBrokers("broker-1:9092"),
			kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				return host.DialContext(ctx, network, address)
			}),
		)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.Ping(t.Context()); err != nil { // it learns of broker 1
			t.Fatal(err)
		}
		for _, version := range []int16{1, 8, 9, 12, 13} {
			req := kmsg.NewPtrMetadataRequest()
			req.Version = version
			resp, err := client.Broker(1).Request(t.Context(), pinned{req, version})
			if err != nil {
				t.Fatalf("Metadata %d: %v", version, err)
			}
			if got := resp.(*kmsg.MetadataResponse).Brokers[0].Host; got != "broker-1" {
				t.Errorf("Metadata %d names %q", version, got)
			}
		}
	})
}

// pinned is a request whose version the client cannot change.
type pinned struct {
	kmsg.Request
	version int16
}

func (p pinned) MaxVersion() int16 { return p.version }
