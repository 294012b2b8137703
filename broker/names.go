package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/klamm-mq/klamm/cluster/metalog"
)

// whoIsAt asks who is at an address that names controllers. A name may stand for several
// machines, as that of a headless service does: a node that found itself there by chance would
// found a cluster beside that of the others. So everybody is asked whom the name stands for.
func (b *Broker) whoIsAt(ctx context.Context, address string) (metalog.State, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || b.env.LookupHost == nil || net.ParseIP(host) != nil || b.isOwn(address) {
		return b.door.Probe(ctx, address)
	}
	found, err := b.env.LookupHost(ctx, host)
	if err != nil {
		return metalog.State{}, fmt.Errorf("find %s: %w", host, err)
	}
	own := ownAddresses()
	var addresses []string
	for _, ip := range found {
		addresses = append(addresses, net.JoinHostPort(ip, port))
	}
	self := metalog.State{NodeID: b.cfg.NodeID, DirectoryID: b.metalog.DirectoryID()}
	return whoAnswers(ctx, addresses, self, b.door.Probe, func(address string, err error) bool {
		ip, _, _ := net.SplitHostPort(address)
		return isRefused(err) && slices.Contains(own, withoutZone(ip))
	})
}

// whoAnswers is somebody else at one of the addresses, or an error if one does not answer, or
// this node. Addresses where nobody is do not count.
func whoAnswers(ctx context.Context, addresses []string, self metalog.State, probe metalog.Prober, nobody func(string, error) bool) (metalog.State, error) {
	answer, err := metalog.State{}, errors.New("nobody is there")
	for _, address := range addresses {
		switch state, probeErr := probe(ctx, address); {
		case probeErr != nil && nobody(address, probeErr):
		case probeErr != nil:
			return metalog.State{}, probeErr
		case state.NodeID != self.NodeID || state.DirectoryID != self.DirectoryID:
			return state, nil
		default:
			answer, err = state, nil
		}
	}
	return answer, err
}

// ownAddresses are those of this machine: where one of them refuses, nobody is, since this node
// listens at another one.
func ownAddresses() (list []string) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			list = append(list, n.IP.String())
		}
	}
	return list
}

func withoutZone(ip string) string {
	ip, _, _ = strings.Cut(ip, "%")
	return ip
}
