package scenarios

import "github.com/klamm-mq/klamm/conform"

// produceTags puts unknown tagged fields everywhere.
func produceTags(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		if v < 9 {
			continue
		}
		req := produceOf(r, v, data{"a", 0, batchOf(r, "x")})
		unknownTags(&req.UnknownTags)
		unknownTags(&req.Topics[0].UnknownTags)
		unknownTags(&req.Topics[0].Partitions[0].UnknownTags)
		r.Send(label(v, "unknown tags"), req)
	}
}

// produceMalformed sends bodies that are no request.
func produceMalformed(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(0) {
		tryMalformed(r, produceOf(r, v, data{"a", 0, batchOf(r, "x")}))
	}
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
	tryVersionsOutside(r, 0)
}

// produceNullRecords sends null for records.
func produceNullRecords(r *conform.R) {
	r.CreateTopic("a", 1)
	req := produceOf(r, 9, data{"a", 0, nil})
	r.RawRequest("main", "null records", req, req.AppendTo(nil))
	r.Send("end", listOf(r, 7, -1, place{"a", 0}))
}
