package tap

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Judge is the client id of the test itself, whose requests are not kept.
const Judge = "judge"

// Request is one request as it went over the wire.
type Request struct {
	Key, Version int16
	Client       string       // client id
	Body         kmsg.Request // nil for a key that kmsg does not know
	correlation  uint32
	answered     *atomic.Bool
}

func (r Request) String() string { return fmt.Sprintf("%s v%d", kmsg.NameForKey(r.Key), r.Version) }

// Answered tells whether the client has been given an answer.
func (r Request) Answered() bool { return r.answered.Load() }

// read reads a frame without its length. The body aliases it.
func read(frame []byte) (Request, error) {
	b := kbin.Reader{Src: frame}
	r := Request{Key: b.Int16(), Version: b.Int16(), correlation: b.Uint32(), answered: new(atomic.Bool)}
	if id := b.NullableString(); id != nil {
		r.Client = *id
	}
	body := kmsg.RequestForKey(r.Key)
	if body == nil || r.Version > body.MaxVersion() {
		return r, b.Complete()
	}
	body.SetVersion(r.Version)
	if body.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if err := b.Complete(); err != nil {
		return r, err
	}
	r.Body = body
	return r, body.ReadFrom(b.Src)
}

// correlation is the id at the start of an answer without its length.
func correlation(frame []byte) uint32 {
	if len(frame) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(frame)
}
