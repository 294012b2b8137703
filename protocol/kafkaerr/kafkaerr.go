package kafkaerr

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Kind is one Kafka error; compare with errors.Is.
type Kind = kerr.Error

// UnknownServerErrorCode is the code of an error that wraps no kind.
const UnknownServerErrorCode int16 = -1

// Code is the wire code of err: 0 for nil, -1 for an error without kind.
func Code(err error) int16 {
	if err == nil {
		return 0
	}
	var k *Kind
	if errors.As(err, &k) {
		return k.Code
	}
	return UnknownServerErrorCode
}

// Message is the text for an error-message field: nil for nil.
func Message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}

// Detail is an error of a kind with a text that a client may read in full,
// without the kind's name in front.
type Detail struct {
	Kind *Kind
	Text string
}

// New makes a Detail.
func New(kind *Kind, text string) error { return &Detail{Kind: kind, Text: text} }

func (d *Detail) Error() string { return d.Text }

// Unwrap gives the kind.
func (d *Detail) Unwrap() error { return d.Kind }

// The kinds that this broker answers; the names are Kafka's.
var (
	UnknownServerError                 = kerr.UnknownServerError
	OffsetOutOfRange                   = kerr.OffsetOutOfRange
	CorruptMessage                     = kerr.CorruptMessage
	UnknownTopicOrPartition            = kerr.UnknownTopicOrPartition
	LeaderNotAvailable                 = kerr.LeaderNotAvailable
	NotLeaderOrFollower                = kerr.NotLeaderForPartition
	RequestTimedOut                    = kerr.RequestTimedOut
	BrokerNotAvailable                 = kerr.BrokerNotAvailable
	ReplicaNotAvailable                = kerr.ReplicaNotAvailable
	MessageTooLarge                    = kerr.MessageTooLarge
	InvalidTopic                       = kerr.InvalidTopicException
	RecordListTooLarge                 = kerr.RecordListTooLarge
	NotEnoughReplicas                  = kerr.NotEnoughReplicas
	NotEnoughReplicasAfterAppend       = kerr.NotEnoughReplicasAfterAppend
	InvalidRequiredAcks                = kerr.InvalidRequiredAcks
	TopicAuthorizationFailed           = kerr.TopicAuthorizationFailed
	ClusterAuthorizationFailed         = kerr.ClusterAuthorizationFailed
	InvalidTimestamp                   = kerr.InvalidTimestamp
	UnsupportedVersion                 = kerr.UnsupportedVersion
	TopicAlreadyExists                 = kerr.TopicAlreadyExists
	InvalidPartitions                  = kerr.InvalidPartitions
	InvalidReplicationFactor           = kerr.InvalidReplicationFactor
	InvalidReplicaAssignment           = kerr.InvalidReplicaAssignment
	InvalidConfig                      = kerr.InvalidConfig
	NotController                      = kerr.NotController
	NoReassignmentInProgress           = kerr.NoReassignmentInProgress
	PreferredLeaderNotAvailable        = kerr.PreferredLeaderNotAvailable
	EligibleLeadersNotAvailable        = kerr.EligibleLeadersNotAvailable
	ElectionNotNeeded                  = kerr.ElectionNotNeeded
	InvalidRequest                     = kerr.InvalidRequest
	PolicyViolation                    = kerr.PolicyViolation
	OutOfOrderSequenceNumber           = kerr.OutOfOrderSequenceNumber
	InvalidProducerEpoch               = kerr.InvalidProducerEpoch
	InvalidTxnState                    = kerr.InvalidTxnState
	TransactionalIDAuthorizationFailed = kerr.TransactionalIDAuthorizationFailed
	KafkaStorageError                  = kerr.KafkaStorageError
	LogDirNotFound                     = kerr.LogDirNotFound
	FetchSessionIDNotFound             = kerr.FetchSessionIDNotFound
	InvalidFetchSessionEpoch           = kerr.InvalidFetchSessionEpoch
	ListenerNotFound                   = kerr.ListenerNotFound
	TopicDeletionDisabled              = kerr.TopicDeletionDisabled
	FencedLeaderEpoch                  = kerr.FencedLeaderEpoch
	UnknownLeaderEpoch                 = kerr.UnknownLeaderEpoch
	UnsupportedCompressionType         = kerr.UnsupportedCompressionType
	StaleBrokerEpoch                   = kerr.StaleBrokerEpoch
	OffsetNotAvailable                 = kerr.OffsetNotAvailable
	OperationNotAttempted              = kerr.OperationNotAttempted
	InvalidUpdateVersion               = kerr.InvalidUpdateVersion
	InvalidRecord                      = kerr.InvalidRecord
	ThrottlingQuotaExceeded            = kerr.ThrottlingQuotaExceeded
	UnknownTopicID                     = kerr.UnknownTopicID
	DuplicateBrokerRegistration        = kerr.DuplicateBrokerRegistration
	InconsistentTopicID                = kerr.InconsistentTopicID
	InconsistentClusterID              = kerr.InconsistentClusterID
	DuplicateVoter                     = kerr.DuplicateVoter
	VoterNotFound                      = kerr.VoterNotFound
	FetchSessionTopicIDError           = kerr.FetchSessionTopicIDError
	IneligibleReplica                  = kerr.IneligibleReplica
	NewLeaderElected                   = kerr.NewLeaderElected
	InvalidRegistration                = kerr.InvalidRegistration
	UnknownControllerID                = kerr.UnknownControllerID
	UnsupportedEndpointType            = kerr.UnsupportedEndpointType
	MismatchedEndpointType             = kerr.MismatchedEndpointType
	RebootstrapRequired                = kerr.RebootstrapRequired
	BrokerIDNotRegistered              = kerr.BrokerIDNotRegistered
	SecurityDisabled                   = kerr.SecurityDisabled
	IllegalSaslState                   = kerr.IllegalSaslState
	DelegationTokenRequestNotAllowed   = kerr.DelegationTokenRequestNotAllowed
	UnknownSubscriptionID              = kerr.UnknownSubscriptionID
	TelemetryTooLarge                  = kerr.TelemetryTooLarge
	InvalidTransactionTimeout          = kerr.InvalidTransactionTimeout
	InvalidProducerIDMapping           = kerr.InvalidProducerIDMapping
	TransactionCoordinatorFenced       = kerr.TransactionCoordinatorFenced
	CoordinatorLoadInProgress          = kerr.CoordinatorLoadInProgress
	CoordinatorNotAvailable            = kerr.CoordinatorNotAvailable
	NotCoordinator                     = kerr.NotCoordinator
	IllegalGeneration                  = kerr.IllegalGeneration
	InconsistentGroupProtocol          = kerr.InconsistentGroupProtocol
	InvalidGroupID                     = kerr.InvalidGroupID
	UnknownMemberID                    = kerr.UnknownMemberID
	InvalidSessionTimeout              = kerr.InvalidSessionTimeout
	RebalanceInProgress                = kerr.RebalanceInProgress
	OffsetMetadataTooLarge             = kerr.OffsetMetadataTooLarge
	GroupAuthorizationFailed           = kerr.GroupAuthorizationFailed
	NonEmptyGroup                      = kerr.NonEmptyGroup
	GroupIDNotFound                    = kerr.GroupIDNotFound
	MemberIDRequired                   = kerr.MemberIDRequired
	GroupMaxSizeReached                = kerr.GroupMaxSizeReached
	FencedInstanceID                   = kerr.FencedInstanceID
	GroupSubscribedToTopic             = kerr.GroupSubscribedToTopic
	UnstableOffsetCommit               = kerr.UnstableOffsetCommit
)
