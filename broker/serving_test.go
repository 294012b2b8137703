package broker

import (
	"testing"

	"github.com/klamm-mq/klamm/configs"
)

// TestReceiveBufferIsTheSystemsUnlessSet: Kafka's default is too small for one request of
// its producer.
func TestReceiveBufferIsTheSystemsUnlessSet(t *testing.T) {
	for setting, want := range map[string]int{
		"node.id=1":                           0,
		"socket.receive.buffer.bytes=-1":      0,
		"socket.receive.buffer.bytes=102400":  102400,
		"socket.receive.buffer.bytes=1048576": 1048576,
	} {
		cfg, _, err := configs.Load(configs.Sources{Set: []string{setting}})
		if err != nil {
			t.Fatal(err)
		}
		if got := socketOptions(cfg).ReceiveBufferBytes; got != want {
			t.Errorf("%s: receive buffers of %d bytes, want %d", setting, got, want)
		}
	}
}
