package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klamm-mq/klamm/protocol"
)

// minHeader is key, version and correlation id, which every header begins with.
const minHeader = 2 + 2 + 4

var (
	errShortHeader = errors.New("request header is cut short")
	errBadTags     = errors.New("tagged fields of the request header are damaged")
)

// UnservedError says that a request asks for an API or version that is not served on
// its listener. Kafka closes the connection then, without an answer.
type UnservedError struct {
	Key, Version int16
	Name         string // "" if the key is unknown
}

func (e *UnservedError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("unknown API key %d (version %d)", e.Key, e.Version)
	}
	return fmt.Sprintf("%s version %d is not served here", e.Name, e.Version)
}

// parseHeader reads the request header at the start of the frame into r:
//
//	key int16, version int16, correlation id int32, client id nullable string
//	(int16 length in both header versions), tagged fields if the version is flexible
//
// A negative length of the client id counts as null. clientID turns the id's bytes into
// a string, so that a connection can keep the one that it saw last.
func (r *Request) parseHeader(p []byte, lookup func(int16) (protocol.API, bool), clientID func([]byte) string) error {
	if len(p) < minHeader {
		return errShortHeader
	}
	r.Key = int16(binary.BigEndian.Uint16(p))
	r.Version = int16(binary.BigEndian.Uint16(p[2:]))
	r.CorrelationID = int32(binary.BigEndian.Uint32(p[4:]))
	api, ok := lookup(r.Key)
	if !ok {
		return &UnservedError{Key: r.Key, Version: r.Version}
	}
	r.api = api
	if err := r.checkServed(); err != nil {
		return err
	}
	p, err := r.parseClientID(p[minHeader:], clientID)
	if err != nil {
		return err
	}
	if api.FlexibleRequest(r.Version) {
		if p, err = skipTags(p); err != nil {
			return err
		}
	}
	r.Body = p
	return nil
}

// checkServed lets every version of ApiVersions pass: its handler answers a version
// that it does not know in version 0, naming those it does (KIP-511).
func (r *Request) checkServed() error {
	kind := r.Conn.Listener.Kind
	if r.Key == protocol.ApiVersionsKey && r.api.Listeners&kind != 0 {
		return nil
	}
	if !r.api.Serves(r.Version, kind) {
		return &UnservedError{Key: r.Key, Version: r.Version, Name: r.api.Name}
	}
	return nil
}

func (r *Request) parseClientID(p []byte, clientID func([]byte) string) ([]byte, error) {
	if len(p) < 2 {
		return nil, errShortHeader
	}
	n := int(int16(binary.BigEndian.Uint16(p)))
	p = p[2:]
	if n < 0 {
		return p, nil
	}
	if n > len(p) {
		return nil, errShortHeader
	}
	r.ClientID, r.HasClientID = clientID(p[:n]), true
	return p[n:], nil
}

// skipTags steps over tagged fields; none is defined for request headers.
func skipTags(p []byte) ([]byte, error) {
	count, p, ok := uvarint(p)
	for ; ok && count > 0; count-- {
		var size uint64
		if _, p, ok = uvarint(p); !ok {
			break
		}
		if size, p, ok = uvarint(p); !ok || size > uint64(len(p)) {
			return nil, errBadTags
		}
		p = p[size:]
	}
	if !ok {
		return nil, errBadTags
	}
	return p, nil
}

// uvarint reads an unsigned varint of at most 32 bits, Kafka's limit.
func uvarint(p []byte) (uint64, []byte, bool) {
	v, n := binary.Uvarint(p)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		return 0, nil, false
	}
	return v, p[n:], true
}
