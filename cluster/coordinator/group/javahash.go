package group

import "unicode/utf16"

// javaHash is String.hashCode of Java, over UTF-16 code units. Which partition of
// __consumer_offsets a group belongs to depends on it, for every Kafka client and tool.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + r
			continue
		}
		high, low := utf16.EncodeRune(r)
		h = 31*(31*h+high) + low
	}
	return h
}

// PartitionFor is the partition of __consumer_offsets, of that many, that keeps a group
// (Utils.abs of the hash, where the absolute value of the least integer is 0).
func PartitionFor(groupID string, partitions int32) int32 {
	h := javaHash(groupID)
	switch {
	case h == -1<<31:
		h = 0
	case h < 0:
		h = -h
	}
	return h % partitions
}

// javaBucket is where a small java.util.HashMap keeps a string key: such a map is walked
// by bucket, and within one in the order of insertion.
func javaBucket(s string) int32 {
	const buckets = 16 // of a HashMap with up to 12 keys
	h := javaHash(s)
	return (h ^ int32(uint32(h)>>16)) & (buckets - 1)
}

// javaLength is String.length of Java: in UTF-16 code units.
func javaLength(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
