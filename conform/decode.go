package conform

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// decode reads the answer to req from the bytes of a frame:
//
//	┌───────────────┬──────────────────────┬────────────────────────┐
//	│ correlation 4 │ 0: no tagged fields  │ answer, to the last    │
//	│               │ (flexible versions,  │ byte                   │
//	│               │ never ApiVersions)   │                        │
//	└───────────────┴──────────────────────┴────────────────────────┘
//
// A complaint is not nil if the bytes are not exactly one answer of that version: kmsg
// stops reading where the answer ends, and takes a null for an empty array where the
// protocol has no null, so the answer is encoded once more and compared.
func decode(req kmsg.Request, correlation int32, b []byte) (resp kmsg.Response, complaint error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("a frame of %d bytes", len(b))
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		return nil, fmt.Errorf("answer to another request, %+d", got-correlation)
	}
	b = b[4:]
	apiVersions := req.Key() == int16(kmsg.ApiVersions)
	if req.IsFlexible() && !apiVersions {
		if len(b) == 0 || b[0] != 0 {
			return nil, errors.New("tagged fields in the header")
		}
		b = b[1:]
	}
	resp = req.ResponseKind()
	err := resp.ReadFrom(b)
	if err != nil && apiVersions { // an unknown version is answered in version 0 (KIP-511)
		resp.SetVersion(0)
		err = resp.ReadFrom(b)
	}
	if err != nil {
		return nil, fmt.Errorf("undecodable: %w", err)
	}
	return resp, compareEncoding(resp.AppendTo(nil), b)
}

func compareEncoding(want, got []byte) error {
	switch {
	case len(want) != len(got):
		return fmt.Errorf("%+d bytes more than the answer has", len(got)-len(want))
	case !bytes.Equal(want, got):
		return errors.New("encoded in another way than it reads")
	}
	return nil
}
