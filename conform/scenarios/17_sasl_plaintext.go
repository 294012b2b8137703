package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// saslOnPlaintext are SASL's requests on a listener without SASL.
func saslOnPlaintext() []conform.Scenario {
	return []conform.Scenario{
		{Name: "sasl/handshake-on-plaintext", Key: 17, Run: handshakeOnPlaintext},
		{Name: "sasl/authenticate-on-plaintext", Key: 36, Run: authenticateOnPlaintext},
	}
}

func handshakeOnPlaintext(r *conform.R) {
	for _, v := range conform.Versions(17) {
		for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "", "no such", "plain"} {
			req := kmsg.NewPtrSASLHandshakeRequest()
			req.Version, req.Mechanism = v, mechanism
			r.Send(label(v, "%q", mechanism), req)
		}
		alive(r, "main", label(v, "the same connection"))
	}
}

func authenticateOnPlaintext(r *conform.R) {
	for _, v := range conform.Versions(36) {
		for _, c := range []struct {
			title string
			bytes []byte
		}{{"PLAIN", []byte("\x00user\x00password")}, {"SCRAM", []byte("n,,n=user,r=nonce")}, {"empty", []byte{}}, {"garbage", []byte{0xff, 0}}} {
			req := kmsg.NewPtrSASLAuthenticateRequest()
			req.Version, req.SASLAuthBytes = v, c.bytes
			r.Send(label(v, "%s", c.title), req)
		}
		if v >= 2 {
			tagged := kmsg.NewPtrSASLAuthenticateRequest()
			tagged.Version, tagged.SASLAuthBytes = v, []byte{}
			unknownTags(&tagged.UnknownTags)
			r.Send(label(v, "unknown tags"), tagged)
		}
		alive(r, "main", label(v, "the same connection"))
	}
}
