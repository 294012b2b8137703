package configs

import (
	"fmt"
	"math"
	"time"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Cleaner is what the log cleaner goes by. All of it but Enabled may change while the broker
// runs.
type Cleaner struct {
	Enabled       bool // log.cleaner.enable
	Threads       int32
	DedupeBytes   int64   // log.cleaner.dedupe.buffer.size, of all threads together
	LoadFactor    float64 // log.cleaner.io.buffer.load.factor
	IOBufferBytes int32   // log.cleaner.io.buffer.size, of all threads together
	// MaxBytesPerSecond is log.cleaner.io.max.bytes.per.second, of what is read and written
	// together.
	MaxBytesPerSecond float64
	Backoff           time.Duration
}

// cleanerKeys are the keys of Kafka's CleanerConfig but for those that are defaults of topics
// (topicDefaultKeys).
func cleanerKeys() []Key {
	return []Key{
		{
			Name: "log.cleaner.backoff.ms", Type: Long, Default: "15000", Valid: atLeast(0), Importance: Medium,
			Doc: "Pause of the log cleaner when it has found nothing to do.",
		},
		{
			Name: "log.cleaner.dedupe.buffer.size", Type: Long, Default: "134217728", Importance: Medium,
			Doc: "Most memory in which the log cleaner notes keys, of all its threads together. It takes what it needs, and gives it back.",
		},
		{
			Name: "log.cleaner.enable", Type: Boolean, Default: "true", Importance: Medium,
			Doc: "Whether topics with cleanup.policy=compact are compacted. Kafka will remove this key: without it their logs grow for ever, that of __consumer_offsets among them.",
		},
		{
			Name: "log.cleaner.io.buffer.load.factor", Type: Double, Default: "0.9", Importance: Medium,
			Doc: "How full the memory for keys may become. More of a log is cleaned at once if it is higher, and each key is found more slowly.",
		},
		{
			Name: "log.cleaner.io.buffer.size", Type: Int, Default: "524288", Valid: atLeast(0), Importance: Medium,
			Doc: "Memory in which the log cleaner reads and writes, of all its threads together; a batch that is larger gets what it needs.",
		},
		{
			Name: "log.cleaner.io.max.bytes.per.second", Type: Double, Default: "1.7976931348623157E308", Importance: Medium,
			Doc: "Bytes a second that the log cleaner may read and write.",
		},
		{
			Name: cleanerThreadsKey, Type: Int, Default: "1", Valid: atLeast(0), Importance: Medium,
			Doc: "Logs that are cleaned at a time; at least 1.",
		},
	}
}

// cleanerDynamicKeys are those that may be changed while brokers run
// (LogCleaner.RECONFIGURABLE_CONFIGS).
const cleanerDynamicKeys = `
	log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
	log.cleaner.io.max.bytes.per.second log.cleaner.threads
`

const (
	cleanerThreadsKey = "log.cleaner.threads"
	// cleanerLeastBytes is what each thread of the cleaner must have more than for keys.
	cleanerLeastBytes = 1 << 20
)

func parseCleaner(v values) Cleaner {
	return Cleaner{
		Enabled:           v.bool("log.cleaner.enable"),
		Threads:           v.int(cleanerThreadsKey),
		DedupeBytes:       v.long("log.cleaner.dedupe.buffer.size"),
		LoadFactor:        v.double("log.cleaner.io.buffer.load.factor"),
		IOBufferBytes:     v.int("log.cleaner.io.buffer.size"),
		MaxBytesPerSecond: v.double("log.cleaner.io.max.bytes.per.second"),
		Backoff:           v.ms("log.cleaner.backoff.ms"),
	}
}

// cleaner refuses what Kafka's KafkaConfig and LogCleaner do not live with.
func (c *checker) cleaner() {
	const size, factor, rate = "log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor", "log.cleaner.io.max.bytes.per.second"
	o := &c.b.Cleaner
	switch {
	case o.Threads < 1:
		c.refuse(cleanerThreadsKey, "must be at least 1")
	case o.DedupeBytes/int64(o.Threads) <= cleanerLeastBytes:
		c.refuse(size, "must be more than 1 MiB for each of log.cleaner.threads (%d)", o.Threads)
	}
	if math.IsNaN(o.LoadFactor) || o.LoadFactor <= 0 || o.LoadFactor > 1 {
		c.refuse(factor, "must be above 0, and at most 1")
	}
	if math.IsNaN(o.MaxBytesPerSecond) {
		c.refuse(rate, "must be a number")
	}
}

// checkCleanerThreads refuses steps that are too large (LogCleaner.validateReconfiguration).
func checkCleanerThreads(from, to *Broker) error {
	was, is := int64(from.Cleaner.Threads), int64(to.Cleaner.Threads)
	if is < was/2 || is > was*2 {
		return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf(
			"%s must be between the half and the double of %d", cleanerThreadsKey, was))
	}
	return nil
}
