package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func describeCluster() []conform.Scenario {
	return []conform.Scenario{{Name: "describecluster/variants", Key: 60, Run: describeClusterVariants}}
}

func describeClusterVariants(r *conform.R) {
	type request = *kmsg.DescribeClusterRequest
	variants := []variant[request]{
		plain[request](),
		{name: "operations", edit: func(req request) { req.IncludeClusterAuthorizedOperations = true }},
		{name: "fenced", min: 2, edit: func(req request) { req.IncludeFencedBrokers = true }},
		{name: "everything", edit: func(req request) {
			req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = true, true
		}},
		{name: "unknown tags", edit: func(req request) { unknownTags(&req.UnknownTags) }},
	}
	for _, kind := range []int8{0, 1, 2, 3, 127, -1, -128} {
		variants = append(variants,
			variant[request]{name: fmt.Sprintf("endpoint type %d", kind), min: 1, edit: func(req request) { req.EndpointType = kind }},
			variant[request]{name: fmt.Sprintf("endpoint type %d, everything", kind), min: 1, edit: func(req request) {
				req.EndpointType = kind
				req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = true, true
			}})
	}
	sendVariants(r, kmsg.NewPtrDescribeClusterRequest, variants)
}
