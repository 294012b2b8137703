package handlers

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/coordinator/group"
	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Groups is what handlers ask of the group coordinator (*group.Service). A request goes to
// the shard of its group, and those of several groups to each of theirs; where a shard is
// not here, the answer says so. JoinGroup and SyncGroup return when the group has come so
// far, which may take minutes, or when ctx ends.
type Groups interface {
	// Coordinator is the broker that leads a group's shard. The topic of shards is made
	// when it is first needed.
	Coordinator(groupID string) (brokerID int32, err error)

	JoinGroup(ctx context.Context, c group.Context, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse
	SyncGroup(ctx context.Context, c group.Context, req *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse
	Heartbeat(ctx context.Context, c group.Context, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse
	LeaveGroup(ctx context.Context, c group.Context, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse

	// OffsetCommit and OffsetFetch take topics that bear their names and, where known,
	// their ids.
	OffsetCommit(ctx context.Context, c group.Context, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse
	OffsetFetch(ctx context.Context, c group.Context, groups []kmsg.OffsetFetchRequestGroup, requireStable bool) []kmsg.OffsetFetchResponseGroup
	OffsetDelete(ctx context.Context, c group.Context, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse

	DescribeGroups(ctx context.Context, c group.Context, ids []string) []kmsg.DescribeGroupsResponseGroup
	ListGroups(ctx context.Context, c group.Context, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse
	DeleteGroups(ctx context.Context, c group.Context, ids []string) []kmsg.DeleteGroupsResponseGroup
}

// member is who asks the coordinator. The request waits for others from here on: for the
// log, if for nothing else.
func (c call) member() group.Context {
	c.request.Park()
	return group.Context{
		Version: c.request.Version, ClientID: c.request.ClientID,
		ClientHost: clientHost(c.request.Conn.Remote), Principal: c.principal(),
	}
}

// awaitGroup is for a request that may wait for minutes. COORDINATOR_NOT_AVAILABLE if too
// much waits already: the client tries again later.
func (h *Handlers) awaitGroup(c call) (done func(), err error) {
	done, ok := h.putAside(c)
	if !ok {
		return nil, kafkaerr.CoordinatorNotAvailable
	}
	return done, nil
}

// clientHost writes an address as Java's InetAddress does, since Kafka's tools show it: a
// slash, and with IPv6 eight groups in full.
func clientHost(remote net.Addr) string {
	if remote == nil {
		return "/"
	}
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return "/" + remote.String()
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return "/" + ip.String()
	}
	bytes := ip.As16()
	parts := make([]string, 8)
	for i := range parts {
		parts[i] = strconv.FormatUint(uint64(bytes[2*i])<<8|uint64(bytes[2*i+1]), 16)
	}
	host := "/" + strings.Join(parts, ":")
	if zone := ip.Zone(); zone != "" {
		host += "%" + zone
	}
	return host
}

// nameTopics gives each topic of a request its name and id: by id from version byID on,
// else by name. What the image does not know stays without the other.
func nameTopics[T any](image *metadata.Image, version, byID int16, topics []T, fields func(*T) (name *string, id *[16]byte)) {
	for i := range topics {
		name, id := fields(&topics[i])
		switch {
		case version >= byID:
			*name = nameOf(image, *id)
		default:
			if topic := image.Topic(*name); topic != nil {
				*id = topic.ID
			}
		}
	}
}

// partitionErrors collects refused partitions by topic, and merges them with what the
// coordinator answers: refused topics come first.
type partitionErrors[Topic any] struct {
	topics []Topic
	index  map[string]int
}

// at finds the topic of a key, which is its name or its id.
func (e *partitionErrors[Topic]) at(key string, fresh func() Topic) *Topic {
	i, found := e.index[key]
	if !found {
		if e.index == nil {
			e.index = map[string]int{}
		}
		i = len(e.topics)
		e.index[key] = i
		e.topics = append(e.topics, fresh())
	}
	return &e.topics[i]
}
