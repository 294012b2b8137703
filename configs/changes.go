package configs

import (
	"errors"
	"fmt"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// checkChange refuses what a file may say and a client may not: a limit that would let
// nobody in, not even who wants to lift it, and what stands in a set twice
// (ConnectionQuotas, DynamicBrokerConfig).
func checkChange(name, text string, value any) error {
	if list, isList := value.([]string); isList && len(splitList(text)) > len(list) {
		return errors.New("must not have an element twice")
	}
	if limit := withoutListener(name); listed("max.connection.creation.rate max.connections", limit) && number(value) < 1 {
		return errors.New("must be at least 1")
	}
	return nil
}

// checkTopicDefaults refuses limits of tiered storage that are beyond those of the whole
// log, and copies that would come after their segments have gone.
func checkTopicDefaults(b *Broker) error {
	for _, unit := range []string{"ms", "bytes"} {
		local, whole := b.topicLimit("local.retention."+unit), b.topicLimit("retention."+unit)
		if whole != -1 && local != -2 && (local == -1 || local > whole) {
			return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(
				"log.local.retention.%s = %d is more than log.retention.%s = %d", unit, local, unit, whole))
		}
		if local == -2 {
			local = whole
		}
		if lag := b.topicLimit("remote.copy.lag." + unit); lag > 0 && local >= 0 && lag > local {
			return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(
				"log.remote.copy.lag.%s = %d is more than log.local.retention.%s (%d in effect)", unit, lag, unit, local))
		}
	}
	return nil
}

// topicLimit is the number that a topic key has where the topic sets nothing.
func (b *Broker) topicLimit(name string) int64 {
	value, _ := TopicKey(name).Parse(topicDefault(b, name))
	n, _ := value.(int64)
	return n
}
