package conform

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDecode(t *testing.T) {
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 3
	answer := func() []byte {
		resp := list.ResponseKind().(*kmsg.ListGroupsResponse)
		return append([]byte{0, 0, 0, 9, 0}, resp.AppendTo(nil)...)
	}
	cases := []struct {
		name, complaint string
		bytes           func(b []byte) []byte
	}{
		{"right", "", func(b []byte) []byte { return b }},
		{"too short for a header", "a frame of 3 bytes", func(b []byte) []byte { return b[:3] }},
		{"another's answer", "another request, -1", func(b []byte) []byte { b[3]--; return b }},
		{"a tag in the header", "tagged fields in the header", func(b []byte) []byte { b[4] = 1; return b }},
		{"nothing behind the header", "tagged fields in the header", func(b []byte) []byte { return b[:4] }},
		{"a byte too many", "+1 bytes more", func(b []byte) []byte { return append(b, 0) }},
		{"a byte too few", "undecodable", func(b []byte) []byte { return b[:len(b)-1] }},
		{"null for an empty array", "encoded in another way", func(b []byte) []byte { b[len(b)-2] = 0; return b }},
	}
	for _, c := range cases {
		_, err := decode(list, 9, c.bytes(answer()))
		switch {
		case c.complaint == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.complaint != "" && (err == nil || !strings.Contains(err.Error(), c.complaint)):
			t.Errorf("%s: want %q, got %v", c.name, c.complaint, err)
		}
	}
}

// KIP-511: an ApiVersions of a version that the broker does not know is answered in
// version 0, and its answer never has a flexible header.
func TestKIP511_ApiVersionsIsAnsweredInVersion0(t *testing.T) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 4
	old := kmsg.NewPtrApiVersionsResponse()
	old.ErrorCode = 35
	resp, err := decode(req, 1, append([]byte{0, 0, 0, 1}, old.AppendTo(nil)...))
	if err != nil || resp.GetVersion() != 0 || resp.(*kmsg.ApiVersionsResponse).ErrorCode != 35 {
		t.Errorf("%+v, %v", resp, err)
	}
}
