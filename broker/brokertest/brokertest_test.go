package brokertest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/klamm-mq/klamm/broker/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// This is all that a test needs of a broker.
func TestStart(t *testing.T) {
	b := brokertest.Start(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr("PLAINTEXT").String()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "greetings", Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Settings of the test win over those of the package.
func TestStartWithSettings(t *testing.T) {
	b := brokertest.Start(t, "listeners=OURS://127.0.0.1:0", "listener.security.protocol.map=OURS:PLAINTEXT",
		"inter.broker.listener.name=OURS", "node.id=7")
	if b.Addr("PLAINTEXT") != nil || b.Addr("OURS") == nil || b.Image().Broker(7) == nil {
		t.Errorf("listeners %v", b.Listeners())
	}
}
