package controller

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// A request that a client sent to some broker travels to the active controller in an
// Envelope request (KIP-590):
//
//	request data     header and body as the client sent them, without the size in front;
//	                 without a client id it counts for nobody's quota
//	principal        who asks: int16 0, type, name, from a token (Kafka's
//	                 DefaultPrincipalData 0)
//	client address   4 or 16 bytes; none if the client did not come over IP
//
// The answer has the embedded answer in the same way, and a tagged field of our own with
// the position in the metadata log that it depends on.

// Forwarded is what an Envelope request has in it.
type Forwarded struct {
	Key, Version  int16
	CorrelationID int32
	Body          []byte // aliases the envelope
	Principal     string // type:name
	ClientID      string
	Metered       bool // see Call
	Client        netip.Addr
}

var errEnvelope = kafkaerr.New(kafkaerr.InvalidRequest, "malformed envelope")

// NewEnvelope wraps a call.
func NewEnvelope(call Call) *kmsg.EnvelopeRequest {
	env := kmsg.NewPtrEnvelopeRequest()
	var header []kmsg.RequestFormatterOpt
	if call.Metered {
		header = append(header, kmsg.FormatterClientID(call.ClientID))
	}
	frame := kmsg.NewRequestFormatter(header...).AppendRequest(nil, call.Request, 0)
	env.RequestData = frame[4:]
	env.RequestPrincipal = appendPrincipal(nil, call.Principal)
	if call.Client.IsValid() {
		env.ClientHostAddress = call.Client.Unmap().AsSlice()
	} else {
		env.ClientHostAddress = []byte{}
	}
	return env
}

// OpenEnvelope unwraps a request that was forwarded. The embedded body is not decoded.
func OpenEnvelope(env *kmsg.EnvelopeRequest) (f Forwarded, err error) {
	b := env.RequestData
	if len(b) < 10 {
		return f, errEnvelope
	}
	f.Key, f.Version = int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	f.CorrelationID = int32(binary.BigEndian.Uint32(b[4:]))
	api, known := protocol.Lookup(f.Key)
	if !known || f.Version < api.MinVersion || f.Version > api.MaxVersion {
		return f, kafkaerr.New(kafkaerr.UnsupportedVersion, fmt.Sprintf("key %d version %d in an envelope", f.Key, f.Version))
	}
	n := int(int16(binary.BigEndian.Uint16(b[8:])))
	b = b[10:]
	if n > len(b) {
		return f, errEnvelope
	}
	f.ClientID, f.Metered = string(b[:max(n, 0)]), n >= 0
	b = b[max(n, 0):]
	if api.FlexibleRequest(f.Version) {
		if b, err = skipTags(b); err != nil {
			return f, err
		}
	}
	f.Body = b
	f.Client, _ = netip.AddrFromSlice(env.ClientHostAddress)
	f.Principal, err = readPrincipal(env.RequestPrincipal)
	return f, err
}

// SealAnswer wraps the answer to a forwarded request, or the error that there is instead of
// one.
func SealAnswer(env *kmsg.EnvelopeRequest, f Forwarded, resp kmsg.Response, at metadata.Position, err error) *kmsg.EnvelopeResponse {
	sealed := env.ResponseKind().(*kmsg.EnvelopeResponse)
	if err != nil {
		sealed.ErrorCode = kafkaerr.Code(err)
		return sealed
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(f.CorrelationID))
	if api, _ := protocol.Lookup(f.Key); api.FlexibleResponse(f.Version) {
		b = append(b, 0)
	}
	sealed.ResponseData = resp.AppendTo(b)
	SetPosition(&sealed.UnknownTags, at)
	return sealed
}

// OpenAnswer unwraps the answer to call. The error is that of the envelope: it wraps
// kafkaerr.NotController if another node should have been asked.
func OpenAnswer(call Call, sealed *kmsg.EnvelopeResponse) (resp kmsg.Response, at metadata.Position, err error) {
	switch sealed.ErrorCode {
	case 0:
	case kafkaerr.UnsupportedVersion.Code:
		return nil, at, fmt.Errorf("forwarded request: %w", errOlder(call.Request))
	default:
		return nil, at, fmt.Errorf("forwarded request: %w", kerr.ErrorForCode(sealed.ErrorCode))
	}
	b := sealed.ResponseData
	if len(b) < 4 {
		return nil, at, errEnvelope
	}
	b = b[4:]
	if api, _ := protocol.Lookup(call.Request.Key()); api.FlexibleResponse(call.Request.GetVersion()) {
		if b, err = skipTags(b); err != nil {
			return nil, at, err
		}
	}
	resp = call.Request.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		return nil, at, fmt.Errorf("answer to a forwarded request: %w", err)
	}
	at, _ = PositionOf(&sealed.UnknownTags)
	return resp, at, nil
}

// errOlder says that the active controller is of a release that did not have a request yet,
// or not this version, which the node that was asked has advertised. The client is told, while
// Kafka's would lose its connection.
func errOlder(req kmsg.Request) error {
	return kafkaerr.New(kafkaerr.UnsupportedVersion, fmt.Sprintf("the active controller runs a release that does not know %s version %d; upgrade all nodes first",
		kmsg.NameForKey(req.Key()), req.GetVersion()))
}

// appendPrincipal writes type:name in Kafka's form.
func appendPrincipal(b []byte, principal string) []byte {
	kind, name, ok := strings.Cut(principal, ":")
	if !ok {
		kind, name = "User", "ANONYMOUS"
	}
	b = append(b, 0, 0)
	for _, s := range []string{kind, name} {
		b = binary.AppendUvarint(b, uint64(len(s))+1)
		b = append(b, s...)
	}
	return append(b, 0, 0) // not from a token; no tagged fields
}

func readPrincipal(b []byte) (string, error) {
	if len(b) < 2 || b[0] != 0 || b[1] != 0 {
		return "", errEnvelope
	}
	b = b[2:]
	var parts [2]string
	for i := range parts {
		n, rest, ok := cutUvarint(b)
		if !ok || n == 0 || n-1 > uint64(len(rest)) {
			return "", errEnvelope
		}
		parts[i], b = string(rest[:n-1]), rest[n-1:]
	}
	return parts[0] + ":" + parts[1], nil
}

// skipTags steps over the tagged fields of a header (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	count, b, ok := cutUvarint(b)
	for ; ok && count > 0; count-- {
		var size uint64
		if _, b, ok = cutUvarint(b); !ok {
			break
		}
		if size, b, ok = cutUvarint(b); ok {
			if ok = size <= uint64(len(b)); ok {
				b = b[size:]
			}
		}
	}
	if !ok {
		return nil, errEnvelope
	}
	return b, nil
}

func cutUvarint(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}
