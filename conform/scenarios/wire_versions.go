package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// wirePerAPI makes a scenario of each API: versions beyond its range close the
// connection, and so does a body that is cut short.
func wirePerAPI() (all []conform.Scenario) {
	for _, api := range conform.APIs() {
		all = append(all, conform.Scenario{
			Name: "wire/api-" + api.Name, Key: api.Key,
			Run: func(r *conform.R) { wireEdges(r, api) },
		})
	}
	return all
}

func wireEdges(r *conform.R, api conform.API) {
	if api.Key != 18 { // which answers
		for _, v := range []int16{api.Min - 1, api.Max + 1, -32768, 32767} {
			outside(r, api.Key, v)
		}
	}
	for _, v := range conform.Versions(api.Key) {
		cut(r, api.Key, v)
	}
	alive(r, "edges", "a new connection")
}

// outside sends a version that does not exist, with a header of each kind.
func outside(r *conform.R, key, version int16) {
	header := conform.Header(key, version, 7, of("conform"), false)
	r.Raw("edges", label(version, "no body"), conform.Frame(header))
	r.Raw("edges", label(version, "zeros"), conform.Frame(header, make([]byte, 100)))
}

// cut sends a well-formed request of which bytes are missing. None of it is ever carried
// out.
func cut(r *conform.R, key, version int16) {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	body := req.AppendTo(nil)
	if len(body) == 0 {
		return
	}
	header := conform.Header(key, version, 7, of("conform"), req.IsFlexible())
	r.Raw("edges", label(version, "no body"), conform.Frame(header))
	if len(body) > 2 {
		r.Raw("edges", label(version, "half of its body"), conform.Frame(header, body[:len(body)/2]))
	}
	r.Raw("edges", label(version, "last byte is missing"), conform.Frame(header, body[:len(body)-1]))
}
