package logstore

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Suffixes of partition directories that are no longer, or not yet, a partition's log
// (Kafka's LogFileUtils).
const (
	deleteSuffix = "-delete"
	straySuffix  = "-stray"
	futureSuffix = "-future"
)

// maxNameLen is the longest file name that file systems take; Kafka cuts to the same.
const maxNameLen = 255

// metadataTopic is Kafka's own metadata log. A directory that holds it belongs to a
// Kafka broker.
const metadataTopic = "__cluster_metadata"

// partitionDirName is "<topic>-<partition>".
func partitionDirName(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

// retiredDirName is "<topic>-<partition>.<32 hex digits><suffix>", the topic cut where
// the whole would be too long. The digits keep the names of two retired logs of one
// partition apart.
func retiredDirName(rand io.Reader, topic string, partition int32, suffix string) (string, error) {
	var unique [16]byte
	if _, err := io.ReadFull(rand, unique[:]); err != nil {
		return "", fmt.Errorf("draw directory name: %w", err)
	}
	tail := "-" + strconv.Itoa(int(partition)) + "." + hex.EncodeToString(unique[:]) + suffix
	return topic[:min(len(topic), maxNameLen-len(tail))] + tail, nil
}

// futureDirName is "<topic>-<partition>.<32 hex digits>-future". Unlike the others it is
// never cut: it must tell the topic.
func futureDirName(rand io.Reader, topic string, partition int32) (string, error) {
	if !HasFutureName(topic, partition) {
		return "", fmt.Errorf("the name of topic %s is too long: %w", topic, kafkaerr.InvalidTopic)
	}
	return retiredDirName(rand, topic, partition, futureSuffix)
}

// HasFutureName tells whether a log of that partition can be moved: a directory's name has
// room for the topic's and all that Kafka adds to it (KAFKA-4893). Kafka writes the unique
// part as hex digits without dashes, as it is here.
func HasFutureName(topic string, partition int32) bool {
	const unique = 1 + 2*16
	return len(partitionDirName(topic, partition))+unique+len(futureSuffix) <= maxNameLen
}

// dirKind is what a directory's name says about it.
type dirKind int8

const (
	partitionDir dirKind = iota
	deletedDir
	strayDir
	futureDir
	otherDir // no partition of ours; left alone
)

// parseDirName takes a directory name apart. The topic of a retired directory may be cut.
func parseDirName(name string) (kind dirKind, topic string, partition int32) {
	kind, rest := partitionDir, name
	for suffix, k := range map[string]dirKind{deleteSuffix: deletedDir, straySuffix: strayDir, futureSuffix: futureDir} {
		head, ok := cutUnique(name, suffix)
		if ok {
			kind, rest = k, head
		}
	}
	dash := strings.LastIndexByte(rest, '-')
	if dash <= 0 {
		return otherDir, "", 0
	}
	p, err := strconv.ParseInt(rest[dash+1:], 10, 32)
	if err != nil || p < 0 || partitionDirName(rest[:dash], int32(p)) != rest {
		return otherDir, "", 0
	}
	return kind, rest[:dash], int32(p)
}

// cutUnique removes ".<32 hex digits><suffix>" from the end of name.
func cutUnique(name, suffix string) (head string, ok bool) {
	head, ok = strings.CutSuffix(name, suffix)
	if !ok {
		return name, false
	}
	dot := len(head) - 2*16 - 1
	if dot <= 0 || head[dot] != '.' {
		return name, false
	}
	if _, err := hex.DecodeString(head[dot+1:]); err != nil {
		return name, false
	}
	return head[:dot], true
}
