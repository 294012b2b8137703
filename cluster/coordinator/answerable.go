package coordinator

import (
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Answerable is an error of a log as clients of a coordinator get to see it
// (CoordinatorOperationExceptionHelper):
//
//	the topic is gone, too few in-sync replicas, timed out  → COORDINATOR_NOT_AVAILABLE
//	not the leader, storage failed                          → NOT_COORDINATOR
//	the batch is too large                                  → UNKNOWN_SERVER_ERROR
//
// All else is left as it is.
func Answerable(err error) error {
	switch kafkaerr.Code(err) {
	case kafkaerr.UnknownTopicOrPartition.Code, kafkaerr.NotEnoughReplicas.Code, kafkaerr.RequestTimedOut.Code:
		return kafkaerr.CoordinatorNotAvailable
	case kafkaerr.NotLeaderOrFollower.Code, kafkaerr.KafkaStorageError.Code:
		return kafkaerr.NotCoordinator
	case kafkaerr.MessageTooLarge.Code, kafkaerr.RecordListTooLarge.Code:
		return kafkaerr.UnknownServerError
	}
	return err
}
