package controller

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// TestPlacementsOfKafka places as Kafka's StripedReplicaPlacer did, whose results are
// recorded: eight partitions each, where all that is random is the first or the last choice.
//
//	place replicas=N random=first|last
//	ID[:RACK][!] …                          ! is a fenced broker
func TestPlacementsOfKafka(t *testing.T) {
	datadriven.RunTest(t, "testdata-kafka/placements.txt", func(t *testing.T, d *datadriven.TestData) string {
		var replicas int
		var choice string
		d.ScanArgs(t, "replicas", &replicas)
		d.ScanArgs(t, "random", &choice)
		source := first
		if choice == "last" {
			source = last
		}
		placed, err := place(rand.New(source), placementBrokers(t, d.Input), 8, replicas)
		if errors.Is(err, kafkaerr.InvalidReplicationFactor) {
			return "INVALID_REPLICATION_FACTOR\n"
		}
		var out strings.Builder
		for _, ids := range placed {
			fmt.Fprintln(&out, strings.Trim(fmt.Sprint(ids), "[]"))
		}
		return out.String()
	})
}

// constant is a rand.Source with which every choice among few is the same. That of the first is
// not 0, which rand.Rand would try again for ever.
type constant uint64

const (
	first constant = 1<<36 | 1<<4
	last  constant = math.MaxUint64
)

func (c constant) Uint64() uint64 { return uint64(c) }

func placementBrokers(t *testing.T, text string) (brokers []usableBroker) {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		word, fenced := strings.CutSuffix(word, "!")
		id, rack, _ := strings.Cut(word, ":")
		n, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		brokers = append(brokers, usableBroker{id: int32(n), rack: rack, fenced: fenced})
	}
	return brokers
}
