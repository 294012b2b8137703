package handlers

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// FindCoordinator (key 10), versions 0–6: which broker coordinates a group.
//
//	v1  key type, throttle time, error message
//	v3  flexible
//	v4  several keys at once (KIP-699)
//	v6  share groups (KIP-932)
//
// Transactional ids are refused with an error that clients take as final, until
// transactions exist. Share groups' state does not exist either; only brokers ask for it.

// Values of the key type.
const (
	groupCoordinator       int8 = 0
	transactionCoordinator int8 = 1
	shareCoordinator       int8 = 2
)

func (h *Handlers) findCoordinator(ctx context.Context, c call, req *kmsg.FindCoordinatorRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < 1 {
		req.CoordinatorType = groupCoordinator
	}
	if req.Version >= 4 {
		for _, key := range req.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, h.coordinator(ctx, c, req.CoordinatorType, key))
		}
		return resp, nil
	}
	found := h.coordinator(ctx, c, req.CoordinatorType, req.CoordinatorKey)
	resp.ErrorCode, resp.ErrorMessage = found.ErrorCode, found.ErrorMessage
	resp.NodeID, resp.Host, resp.Port = found.NodeID, found.Host, found.Port
	if resp.ErrorCode == 0 {
		none := "NONE" // Kafka's name for success
		resp.ErrorMessage = &none
	}
	return resp, nil
}

// coordinator is the answer for one key. Where several are asked for, Kafka leaves the
// message of each empty, unless it refuses the whole request: for a type that is none.
func (h *Handlers) coordinator(ctx context.Context, c call, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	found := kmsg.NewFindCoordinatorResponseCoordinator()
	found.Key, found.NodeID, found.Port = key, -1, -1
	found.ErrorMessage = new(string)
	id, err := h.coordinatorID(c, kind, key)
	if err == nil && h.suspects != nil && h.suspects.Suspect(id) {
		h.awaitSuspects(ctx, c)
		id, err = h.coordinatorID(c, kind, key)
	}
	if err == nil {
		host, port, _, ok := h.leaderAddress(c, id)
		if ok {
			found.NodeID, found.Host, found.Port = id, host, port
			return found
		}
		err = kafkaerr.CoordinatorNotAvailable
	}
	found.ErrorCode = kafkaerr.Code(err)
	if c.request.Version < 4 || kind < groupCoordinator || kind > shareCoordinator {
		found.ErrorMessage = kafkaerr.Message(err)
	}
	return found
}

func (h *Handlers) coordinatorID(c call, kind int8, key string) (int32, error) {
	switch kind {
	case groupCoordinator:
		return h.groups.Coordinator(key)
	case transactionCoordinator:
		return -1, kafkaerr.TransactionalIDAuthorizationFailed
	case shareCoordinator:
		if c.request.Version >= 6 && isSharePartitionKey(key) {
			return -1, kafkaerr.ClusterAuthorizationFailed
		}
	}
	return -1, kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("there are no coordinators of type %d", kind))
}

// isSharePartitionKey reports whether key is a group's id, which may have colons in it, a
// topic's id and a partition with colons between them (Kafka's SharePartitionKey).
func isSharePartitionKey(key string) bool {
	rest, partition, ok := cutLast(key)
	if !ok {
		return false
	}
	group, topicID, ok := cutLast(rest)
	if !ok || strings.TrimSpace(group) == "" {
		return false
	}
	if _, err := uuid.Parse(topicID); err != nil {
		return false
	}
	_, err := strconv.ParseInt(partition, 10, 32)
	return err == nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
