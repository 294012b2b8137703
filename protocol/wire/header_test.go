package wire

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/klamm-mq/klamm/protocol"
)

func TestParseHeader(t *testing.T) {
	unserved := errors.New("an UnservedError")
	cases := []struct {
		name, hex string
		wantID    string
		hasID     bool
		body      string
		err       error
	}{
		{name: "not flexible", hex: "0003 0001 00000007 0002 6162 6869", wantID: "ab", hasID: true, body: "hi"},
		{name: "no body", hex: "0003 0001 00000007 0002 6162", wantID: "ab", hasID: true},
		{name: "empty client id", hex: "0003 0001 00000007 0000 6869", hasID: true, body: "hi"},
		{name: "null client id", hex: "0003 0001 00000007 ffff 6869", body: "hi"},
		{name: "client id length -2", hex: "0003 0001 00000007 fffe 6869", body: "hi"},
		{name: "client id length -32768", hex: "0003 0001 00000007 8000 6869", body: "hi"},
		{name: "client id beyond the end", hex: "0003 0001 00000007 0003 6162", err: errShortHeader},
		{name: "no client id", hex: "0003 0001 00000007", err: errShortHeader},
		{name: "half a client id length", hex: "0003 0001 00000007 00", err: errShortHeader},
		{name: "seven bytes", hex: "0003 0001 000000", err: errShortHeader},
		{name: "one byte", hex: "00", err: errShortHeader},
		{name: "flexible, no tags", hex: "0003 0009 00000007 0002 6162 00 6869", wantID: "ab", hasID: true, body: "hi"},
		{name: "flexible, null client id", hex: "0003 0009 00000007 ffff 00 6869", body: "hi"},
		{name: "two tags", hex: "0003 0009 00000007 ffff 02 0701aa 8001 02bbcc 6869", body: "hi"},
		{name: "no tag count", hex: "0003 0009 00000007 ffff", err: errBadTags},
		{name: "fewer tags than counted", hex: "0003 0009 00000007 ffff 02 0701aa", err: errBadTags},
		{name: "tag beyond the end", hex: "0003 0009 00000007 ffff 01 0703aa", err: errBadTags},
		{name: "tag of 4 GiB", hex: "0003 0009 00000007 ffff 01 07 ffffffff0f aa", err: errBadTags},
		{name: "varint of six bytes", hex: "0003 0009 00000007 ffff 808080808001", err: errBadTags},
		{name: "varint above 32 bits", hex: "0003 0009 00000007 ffff ffffffff1f", err: errBadTags},
		{name: "varint cut short", hex: "0003 0009 00000007 ffff 80", err: errBadTags},
		{name: "unknown key", hex: "00c8 0000 00000007 ffff", err: unserved},
		{name: "negative key", hex: "ffff 0000 00000007 ffff", err: unserved},
		{name: "key of a later issue", hex: "0044 0001 00000007 ffff", err: unserved},
		{name: "version too low", hex: "0000 0002 00000007 ffff", err: unserved},
		{name: "version too high", hex: "0003 000e 00000007 ffff 00", err: unserved},
		{name: "negative version", hex: "0003 ffff 00000007 ffff", err: unserved},
		{name: "ApiVersions above", hex: "0012 0063 00000007 ffff 00 6869", body: "hi"},
		{name: "ApiVersions negative", hex: "0012 ffff 00000007 ffff 6869", body: "hi"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			r := Request{Conn: &ConnInfo{Listener: ListenerInfo{Kind: protocol.BrokerListener}}}
			err = r.parseHeader(p, protocol.Lookup, func(p []byte) string { return string(p) })
			var got *UnservedError
			if errors.As(err, &got) {
				err = unserved
			}
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			if r.CorrelationID != 7 || r.ClientID != c.wantID || r.HasClientID != c.hasID || string(r.Body) != c.body {
				t.Errorf("correlation %d, client id %q (%v), body %q", r.CorrelationID, r.ClientID, r.HasClientID, r.Body)
			}
		})
	}
}

// What a controller's listener serves is another set (Kafka's ApiMessageType.ListenerType).
func TestHeaderByListener(t *testing.T) {
	parse := func(kind protocol.Listener, key, version int16) error {
		r := Request{Conn: &ConnInfo{Listener: ListenerInfo{Kind: kind}}}
		return r.parseHeader(request(key, version, 1, "\x00")[4:], protocol.Lookup, func(p []byte) string { return string(p) })
	}
	if err := parse(protocol.ControllerListener, 3, 1); err == nil {
		t.Error("Metadata on a controller's listener")
	}
	if err := parse(protocol.ControllerListener, 60, 0); err != nil {
		t.Errorf("DescribeCluster on a controller's listener: %v", err)
	}
	if err := parse(protocol.ControllerListener, 18, 3); err != nil {
		t.Errorf("ApiVersions on a controller's listener: %v", err)
	}
}

// Whatever the frame, parsing ends with an error or with a body that lies within it.
func FuzzHeader(f *testing.F) {
	f.Add(request(3, 1, 7, "body")[4:])
	f.Add(request(3, 9, 7, "\x02\x07\x01a\x09\x00body")[4:])
	f.Add(request(18, 99, 7, "\x00")[4:])
	f.Fuzz(func(t *testing.T, p []byte) {
		r := Request{Conn: &ConnInfo{Listener: ListenerInfo{Kind: protocol.BrokerListener}}}
		err := r.parseHeader(p, protocol.Lookup, func(p []byte) string { return string(p) })
		if err == nil && (len(r.Body) > len(p)-minHeader-2 || !strings.HasSuffix(string(p), string(r.Body))) {
			t.Errorf("a body of %d bytes in a frame of %d", len(r.Body), len(p))
		}
	})
}
