package group

import (
	"encoding/binary"
)

// subscriptionTopics reads the topics out of a consumer's metadata (ConsumerProtocol). All
// versions begin alike, so that none need be known:
//
//	version int16 · topics: count int32, then each: length int16, bytes · the rest
//
// The rest of version 0 is user data, nullable bytes.
func subscriptionTopics(metadata []byte) ([]string, bool) {
	if len(metadata) < 6 {
		return nil, false
	}
	n := int32(binary.BigEndian.Uint32(metadata[2:]))
	rest := metadata[6:]
	// A topic takes at least its length, so that a count cannot ask for more than is there.
	if n < 0 || int64(n)*2 > int64(len(rest)) {
		return nil, false
	}
	topics := make([]string, n)
	for i := range topics {
		if len(rest) < 2 {
			return nil, false
		}
		size := int(int16(binary.BigEndian.Uint16(rest)))
		if size < 0 || len(rest)-2 < size {
			return nil, false
		}
		topics[i] = string(rest[2 : 2+size])
		rest = rest[2+size:]
	}
	return topics, userDataFits(rest)
}

// userDataFits checks the nullable bytes that end version 0.
func userDataFits(rest []byte) bool {
	if len(rest) < 4 {
		return false
	}
	size := int32(binary.BigEndian.Uint32(rest))
	return int(size) <= len(rest)-4
}
