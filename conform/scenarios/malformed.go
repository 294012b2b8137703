package scenarios

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// tryMalformed sends the body of req cut at several places, which no broker can read, and
// with bytes behind it, which Kafka ignores.
func tryMalformed(r *conform.R, req kmsg.Request) {
	v, body := req.GetVersion(), req.AppendTo(nil)
	for _, n := range []int{0, 1, len(body) / 3, len(body) * 2 / 3, len(body) - 1} {
		r.RawRequest("malformed", label(v, "body cut to %d bytes", n), req, body[:n])
	}
	r.RawRequest("malformed", label(v, "3 bytes behind the body"), req, append(body, 1, 2, 3))
}

// tryVersionsOutside sends a header of the version below the first and above the last,
// with no more of a request than many zeros.
func tryVersionsOutside(r *conform.R, key int16) {
	versions := conform.Versions(key)
	for _, v := range slices.Compact([]int16{-1, versions[0] - 1, versions[len(versions)-1] + 1, 99}) {
		id := "conform"
		r.Raw("outside", label(v, "which is no version"), conform.Frame(conform.Header(key, v, 1, &id, false), make([]byte, 64)))
	}
}

// withPayload puts these bytes, whatever they are, in place of what follows a batch's header,
// and corrects its length and checksum.
func withPayload(batch, payload []byte) []byte {
	return resized(append(batch[:headerSize:headerSize], payload...))
}

// headerSize is the size of a batch's header in bytes.
const headerSize = 61

// resized corrects the length and the checksum of an encoded batch.
func resized(batch []byte) []byte {
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	return conform.Sum(batch)
}
