package broker_test

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

// A broker that is unregistered while it runs registers again, leads again what it led,
// and has lost nothing.
func TestUnregisteredBrokerComesBack(t *testing.T) {
	for _, durability := range []string{"fsync", "replicated"} {
		t.Run(durability, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := brokertest.NewMachine(t)
				m.Start(t, "durability="+durability)
				client := newClient(t, m)
				produce(t, client, "events", numbered(0, 5)...)
				reader := member(t, m, "readers", "events")
				expect(t, "values before", poll(t, reader, 5), numbered(0, 5))

				req := kmsg.NewPtrUnregisterBrokerRequest()
				req.BrokerID = 1
				resp, err := req.RequestWith(t.Context(), client)
				if err != nil || resp.ErrorCode != 0 {
					t.Fatalf("%+v, %v", resp, err)
				}
				produce(t, client, "events", numbered(5, 10)...)
				expect(t, "values after", poll(t, reader, 5), numbered(5, 10))
			})
		})
	}
}
