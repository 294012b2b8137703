package scenarios

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

// variant is one way to change a plain request into what is tried.
type variant[Q kmsg.Request] struct {
	name     string
	min, max int16 // the versions in which it is tried; max 0 is the latest
	edit     func(req Q)
}

// plain is the variant that changes nothing.
func plain[Q kmsg.Request]() variant[Q] { return variant[Q]{name: "plain", edit: func(Q) {}} }

// with is a variant in all versions.
func with[Q kmsg.Request](name string, edit func(req Q)) variant[Q] {
	return variant[Q]{name: name, edit: edit}
}

// since is a variant in version min and later.
func since[Q kmsg.Request](min int16, name string, edit func(req Q)) variant[Q] {
	return variant[Q]{name: name, min: min, edit: edit}
}

// sendVariants sends every variant of the request that mk makes, in all versions.
func sendVariants[Q kmsg.Request](r *conform.R, mk func() Q, variants []variant[Q]) {
	for _, v := range conform.Versions(mk().Key()) {
		sendVariantsIn(r, v, mk, variants)
	}
}

// sendVariantsIn is sendVariants in one version.
func sendVariantsIn[Q kmsg.Request](r *conform.R, version int16, mk func() Q, variants []variant[Q]) {
	for _, v := range variants {
		if version < v.min || v.max != 0 && version > v.max {
			continue
		}
		req := mk()
		req.SetVersion(version)
		v.edit(req)
		r.Send(label(version, "%s", v.name), req)
	}
}

// unknownTags puts a tagged field that no version has into tags.
func unknownTags(tags *kmsg.Tags) { tags.Set(9999, []byte("unknown")) }

// of is a pointer to v, for fields that may be null.
func of[T any](v T) *T { return &v }

// latest is the last version of key.
func latest(key int16) int16 {
	api, _ := conform.Lookup(key)
	return api.Max
}

func rangeText(min, max int16) string { return fmt.Sprintf("%d-%d", min, max) }

// listNothing is a ListOffsets of no topics.
func listNothing(version int16) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	return req
}

// longName has as many characters as a topic's name may have.
var longName = strings.Repeat("x", 249)

const (
	maxInt32 = math.MaxInt32
	minInt32 = math.MinInt32
)
