package scenarios

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func apiVersions() []conform.Scenario {
	return []conform.Scenario{
		{Name: "apiversions/client", Key: 18, Run: apiVersionsClient},
		{Name: "apiversions/identity", Key: 18, Run: apiVersionsIdentity},
		{Name: "apiversions/unsupported", Key: 18, Run: apiVersionsUnsupported},
		{Name: "apiversions/order", Key: 18, Run: apiVersionsOrder},
	}
}

// rangesPerAPI makes a scenario of each API: the versions that are advertised of it.
func rangesPerAPI() (all []conform.Scenario) {
	for _, api := range conform.APIs() {
		all = append(all, conform.Scenario{
			Name: "apiversions/range-" + api.Name, Key: api.Key,
			Run: func(r *conform.R) { advertisedRange(r, api.Key) },
		})
	}
	return all
}

func advertisedRange(r *conform.R, key int16) {
	for _, v := range []int16{0, latest(18)} {
		req := apiVersionsRequest()
		req.Version = v
		is := "absent"
		for _, k := range r.Quiet(req).(*kmsg.ApiVersionsResponse).ApiKeys {
			if k.ApiKey == key {
				is = rangeText(k.MinVersion, k.MaxVersion)
			}
		}
		r.Note(label(v, "range"), "%s", is)
	}
}

func apiVersionsRequest() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "conform", "1.0"
	return req
}

// ignoreAdvertised leaves out which APIs and features a broker has.
func ignoreAdvertised(r *conform.R) {
	r.Ignore("ApiKeys", "SupportedFeatures", "FinalizedFeatures", "FinalizedFeaturesEpoch")
}

// apiVersionsClient tries what a client may call itself.
func apiVersionsClient(r *conform.R) {
	ignoreAdvertised(r)
	type request = *kmsg.ApiVersionsRequest
	named := func(title, name, version string) variant[request] {
		return variant[request]{name: title, min: 3, edit: func(req request) {
			req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
		}}
	}
	sendVariants(r, apiVersionsRequest, []variant[request]{
		plain[request](),
		{name: "names below v3", max: 2, edit: func(req request) { req.ClientSoftwareName = "-" }},
		named("one letter", "a", "1"),
		named("inner hyphens and dots", "a-b.c", "1-2.3"),
		named("double dot", "a..b", "1"),
		named("digits", "0", "0"),
		named("empty name", "", "1"),
		named("empty version", "a", ""),
		named("both empty", "", ""),
		named("leading hyphen", "-a", "1"),
		named("trailing hyphen", "a-", "1"),
		named("leading dot", "a", ".1"),
		named("trailing dot", "a", "1."),
		named("underscore", "a_b", "1"),
		named("space", "a b", "1"),
		named("plus in version", "a", "1+2"),
		named("newline at the end", "a\n", "1"),
		named("not ASCII", "ä", "1"),
		named("long", strings.Repeat("x", 1000), strings.Repeat("1", 1000)),
		{name: "unknown tags", min: 3, edit: func(req request) { unknownTags(&req.UnknownTags) }},
	})
}

// apiVersionsIdentity tries the cluster and node that a client expects (KIP-1242).
func apiVersionsIdentity(r *conform.R) {
	ignoreAdvertised(r)
	type request = *kmsg.ApiVersionsRequest
	expect := func(title string, cluster *string, node int32) variant[request] {
		return variant[request]{name: title, min: 5, edit: func(req request) { req.ClusterID, req.NodeID = cluster, node }}
	}
	right, node := r.ClusterID(), r.Node(0)
	sendVariants(r, apiVersionsRequest, []variant[request]{
		expect("neither", nil, -1),
		expect("both right", &right, node),
		expect("cluster only", &right, -1),
		expect("wrong cluster only", of("nobody"), -1),
		expect("node only", nil, node),
		expect("wrong node only", nil, node+1000),
		expect("node below -1", nil, -2),
		expect("other cluster", of("nobody"), node),
		expect("other node", &right, node+1000),
		expect("both wrong", of("nobody"), node+1000),
		expect("empty cluster", of(""), node),
		expect("other case", of(strings.ToLower(right)), node),
		expect("node -2", &right, -2),
		{name: "bad name wins over identity", min: 5, edit: func(req request) {
			req.ClientSoftwareName, req.ClusterID, req.NodeID = "-", of("nobody"), 7
		}},
	})
}

// apiVersionsUnsupported asks in versions that do not exist: the answer is of version 0
// and names this API alone, and the connection is kept.
func apiVersionsUnsupported(r *conform.R) {
	for _, v := range []int16{latest(18) + 1, 99, 32767, -1, -32768} {
		req := apiVersionsRequest()
		req.Version = v
		r.Send(label(v, "well-formed"), req)
		r.RawRequest("main", label(v, "no body"), req, nil)
		r.RawRequest("main", label(v, "garbage body"), req, []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	}
}

// apiVersionsOrder asks at several moments of a connection.
func apiVersionsOrder(r *conform.R) {
	ignoreAdvertised(r)
	r.Send("first", apiVersionsRequest())
	r.Send("second", apiVersionsRequest())
	unsupported := apiVersionsRequest()
	unsupported.Version = 99
	r.Send("unsupported", unsupported)
	retry := apiVersionsRequest()
	retry.Version = 0
	r.Send("in version 0 after unsupported", retry)
	bad := apiVersionsRequest()
	bad.Version, bad.ClientSoftwareName = 3, ""
	r.Send("bad name", bad)
	r.Send("after a bad name", listNothing(7))
	r.Send("after another API", apiVersionsRequest())
	r.ClientID(nil)
	r.Send("null client id", apiVersionsRequest())
	r.ClientID(of(""))
	r.Send("empty client id", apiVersionsRequest())
	r.ClientID(of("a\x00é€"))
	r.Send("odd client id", apiVersionsRequest())
	r.ClientID(of(strings.Repeat("c", 32_767)))
	r.Send("longest client id", apiVersionsRequest())
}
