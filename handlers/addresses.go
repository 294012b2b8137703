package handlers

import (
	"net"
	"strconv"

	"github.com/klamm-mq/klamm/cluster/metadata"
)

// endpointOf is the broker's endpoint on a listener, nil if it has none.
func endpointOf(broker *metadata.Broker, listener string) *metadata.Endpoint {
	for i := range broker.Listeners {
		if broker.Listeners[i].Name == listener {
			return &broker.Listeners[i]
		}
	}
	return nil
}

// address is where a client of this connection reaches the broker. A broker that was
// told no advertised address and is alone in its cluster answers the address that the
// client is connected to: whatever name, bridge or port mapping led here works again.
// With a second broker nobody could know its address that way, so the registered one
// counts.
func (h *Handlers) address(image *metadata.Image, c call, broker *metadata.Broker) (host string, port int32, ok bool) {
	listener := c.request.Conn.Listener.Name
	endpoint := endpointOf(broker, listener)
	if endpoint == nil {
		return "", 0, false
	}
	if broker.ID == h.nodeID && image.NumBrokers() == 1 && !h.advertised(listener) {
		if host, port, ok := splitAddr(c.request.Conn.Local); ok {
			return host, port, true
		}
	}
	return endpoint.Host, endpoint.Port, true
}

func splitAddr(addr net.Addr) (host string, port int32, ok bool) {
	if addr == nil {
		return "", 0, false
	}
	host, text, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return host, int32(n), err == nil && host != ""
}

// anyAliveBroker is the controller id of an answer: any live broker, since each forwards
// to the controller. -1 if there is none.
func (h *Handlers) anyAliveBroker(image *metadata.Image) int32 {
	alive := make([]int32, 0, 8)
	for broker := range image.Brokers() {
		if !broker.Fenced {
			alive = append(alive, broker.ID)
		}
	}
	if len(alive) == 0 {
		return -1
	}
	return alive[h.pick(len(alive))]
}

// leaderAddress is where a client finds the broker that now leads, for the KIP-951 part
// of an answer.
func (h *Handlers) leaderAddress(c call, id int32) (host string, port int32, rack *string, ok bool) {
	image := h.image()
	broker := image.Broker(id)
	if broker == nil || broker.Fenced {
		return "", 0, nil, false
	}
	host, port, ok = h.address(image, c, broker)
	return host, port, broker.Rack, ok
}
