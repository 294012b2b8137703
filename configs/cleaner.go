package configs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// cleanerKeys are about the log cleaner, which does not exist yet. As in a file they are let
// in: what operators set on every cluster of theirs can be set here, is kept and described,
// and counts when topics are compacted. IgnoredDynamic has them, so that the log says it.
func cleanerKeys() []Key {
	key := func(name string, kind Type, valid Validator) Key {
		return Key{Name: name, Type: kind, Unset: true, Valid: valid, Importance: Medium}
	}
	return []Key{
		key("log.cleaner.backoff.ms", Long, atLeast(0)),
		key("log.cleaner.dedupe.buffer.size", Long, nil),
		key("log.cleaner.io.buffer.load.factor", Double, nil),
		key("log.cleaner.io.buffer.size", Int, atLeast(0)),
		key("log.cleaner.io.max.bytes.per.second", Double, nil),
		key(cleanerThreadsKey, Int, atLeast(0)),
	}
}

const cleanerThreadsKey = "log.cleaner.threads"

// checkCleanerThreads refuses none, and steps that are too large (Kafka's LogCleaner).
func checkCleanerThreads(from, to *Broker) error {
	was, is := from.cleanerThreads(), to.cleanerThreads()
	if is == was {
		return nil
	}
	if is < 1 || is < was/2 || is > was*2 {
		return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(
			"%s must be at least 1, and between the half and the double of %d", cleanerThreadsKey, was))
	}
	return nil
}

func (b *Broker) cleanerThreads() int64 {
	for _, source := range []Source{SourceDynamicBroker, SourceDynamicDefault, SourceStatic} {
		text, _ := b.at(source, cleanerThreadsKey)
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32); err == nil {
			return n
		}
	}
	return 1
}
