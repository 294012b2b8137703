package handlers

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func TestSaslWithoutAuthentication(t *testing.T) {
	f := newFixture(t)
	if got := ask[*kmsg.SASLHandshakeResponse](t, f, kmsg.NewPtrSASLHandshakeRequest()); got.ErrorCode != kafkaerr.IllegalSaslState.Code || got.SupportedMechanisms != nil {
		t.Errorf("%+v", got)
	}
	got := ask[*kmsg.SASLAuthenticateResponse](t, f, kmsg.NewPtrSASLAuthenticateRequest())
	if got.ErrorCode != kafkaerr.IllegalSaslState.Code || got.ErrorMessage == nil {
		t.Errorf("%+v", got)
	}
}

// Without an authorizer every request about ACLs is refused, and one that names something
// unknown closes the connection.
func TestACLsWithoutAuthorizer(t *testing.T) {
	f := newFixture(t)
	refused := kafkaerr.SecurityDisabled.Code
	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.Version, describe.ResourceType, describe.ResourcePatternType, describe.Operation, describe.PermissionType = 3, 2, 3, 3, 3
	if got := ask[*kmsg.DescribeACLsResponse](t, f, describe); got.ErrorCode != refused {
		t.Errorf("%+v", got)
	}
	creation := kmsg.CreateACLsRequestCreation{ResourceType: 2, ResourcePatternType: 3, Operation: 3, PermissionType: 3}
	create := kmsg.NewPtrCreateACLsRequest()
	create.Version, create.Creations = 3, []kmsg.CreateACLsRequestCreation{creation, creation}
	if got := ask[*kmsg.CreateACLsResponse](t, f, create); len(got.Results) != 2 || got.Results[1].ErrorCode != refused {
		t.Errorf("%+v", got)
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Version, remove.Filters = 3, []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
	if got := ask[*kmsg.DeleteACLsResponse](t, f, remove); len(got.Results) != 1 || got.Results[0].ErrorCode != refused {
		t.Errorf("%+v", got)
	}

	describe.Operation, create.Creations[1].PermissionType, remove.Filters[0].ResourceType = 0, 0, 0
	for _, req := range []kmsg.Request{describe, create, remove} {
		if out := f.h.Handle(t.Context(), f.request(req)); !errors.Is(out.Close, errBadBody) {
			t.Errorf("%T with something unknown: %+v", req, out)
		}
	}
}

func TestTokensWithoutAuthentication(t *testing.T) {
	f := newFixture(t)
	refused := kafkaerr.DelegationTokenRequestNotAllowed.Code
	create := kmsg.NewPtrCreateDelegationTokenRequest()
	create.Version = 3
	kind, name := "User", "other"
	for _, c := range []struct {
		kind, name *string
		code       int16
		want       string
	}{
		{nil, nil, refused, "User:ANONYMOUS"},
		{&kind, &name, refused, "User:other"},
		{nil, &name, kafkaerr.UnknownServerErrorCode, "User:ANONYMOUS"},
	} {
		create.OwnerPrincipalType, create.OwnerPrincipalName = c.kind, c.name
		got := ask[*kmsg.CreateDelegationTokenResponse](t, f, create)
		if got.ErrorCode != c.code || got.PrincipalType+":"+got.PrincipalName != c.want || got.MaxTimestamp != -1 || got.TokenRequesterPrincipalName != "ANONYMOUS" {
			t.Errorf("%+v", got)
		}
	}
	if got := ask[*kmsg.RenewDelegationTokenResponse](t, f, versioned(kmsg.NewPtrRenewDelegationTokenRequest(), 2)); got.ErrorCode != refused || got.ExpiryTimestamp != -1 {
		t.Errorf("%+v", got)
	}
	if got := ask[*kmsg.ExpireDelegationTokenResponse](t, f, versioned(kmsg.NewPtrExpireDelegationTokenRequest(), 2)); got.ErrorCode != refused || got.ExpiryTimestamp != -1 {
		t.Errorf("%+v", got)
	}
	if got := ask[*kmsg.DescribeDelegationTokenResponse](t, f, versioned(kmsg.NewPtrDescribeDelegationTokenRequest(), 3)); got.ErrorCode != refused {
		t.Errorf("%+v", got)
	}
}

func versioned[Req kmsg.Request](req Req, version int16) Req {
	req.SetVersion(version)
	return req
}

func TestDescribeQuorum(t *testing.T) {
	f := newFixture(t)
	dir := uuid.UUID{7}
	known := Quorum{
		Leader: 1, LeaderHere: true, Epoch: 3, HighWatermark: 40,
		Voters: []QuorumReplica{{ID: 1, DirectoryID: dir, LogEndOffset: 41, LastFetch: 5, LastCaughtUp: 5}},
	}
	f.h.quorum = func() Quorum { return known }
	asked := func(topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
		req := versioned(kmsg.NewPtrDescribeQuorumRequest(), 2)
		q := kmsg.NewDescribeQuorumRequestTopic()
		q.Topic = topic
		for _, n := range partitions {
			p := kmsg.NewDescribeQuorumRequestTopicPartition()
			p.Partition = n
			q.Partitions = append(q.Partitions, p)
		}
		req.Topics = append(req.Topics, q)
		return req
	}
	got := ask[*kmsg.DescribeQuorumResponse](t, f, asked("__cluster_metadata", 0))
	p := got.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch != 3 || p.HighWatermark != 40 || len(p.CurrentVoters) != 1 || len(p.Observers) != 0 {
		t.Fatalf("%+v", p)
	}
	if v := p.CurrentVoters[0]; v.ReplicaID != 1 || v.ReplicaDirectoryID != dir || v.LogEndOffset != 41 || v.LastFetchTimestamp != 5 {
		t.Errorf("%+v", v)
	}
	if len(got.Nodes) != 1 || got.Nodes[0].NodeID != 1 || got.Nodes[0].Listeners[0].Host != "registered" {
		t.Errorf("%+v", got.Nodes)
	}
	for _, req := range []*kmsg.DescribeQuorumRequest{asked("t", 0), asked("__cluster_metadata", 1), asked("__cluster_metadata", 0, 0)} {
		got := ask[*kmsg.DescribeQuorumResponse](t, f, req)
		if p := got.Topics[0].Partitions[0]; p.ErrorCode != kafkaerr.UnknownTopicOrPartition.Code || got.Nodes != nil {
			t.Errorf("%+v", got)
		}
	}
	known = Quorum{Leader: 2}
	ask[*kmsg.DescribeQuorumResponse](t, f, asked("__cluster_metadata", 0))
	if forwarded := <-f.node.calls; forwarded.Key() != 55 {
		t.Errorf("%T was forwarded", forwarded)
	}
	f.node.err = kafkaerr.RequestTimedOut
	if got := ask[*kmsg.DescribeQuorumResponse](t, f, asked("__cluster_metadata", 0)); got.Topics[0].Partitions[0].ErrorCode != kafkaerr.NotLeaderOrFollower.Code {
		t.Errorf("%+v", got)
	}
}
