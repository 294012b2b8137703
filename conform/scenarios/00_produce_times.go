package scenarios

import (
	"github.com/klamm-mq/klamm/conform"
)

func produceTimes() (all []conform.Scenario) {
	for _, kind := range timeKinds() {
		all = append(all, conform.Scenario{
			Name: "produce/times-" + kind.name, Key: 0,
			Run: func(r *conform.R) { produceTimestamps(r, kind) },
		})
	}
	return all
}

// timeKinds are topics with bounds for timestamps: 65 minutes back, 10 minutes ahead. T(0)
// is an hour ago.
func timeKinds() []topicKind {
	const before, after = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
	return []topicKind{
		{"bounds", []string{before, "3900000", after, "600000"}},
		{"appendtime-bounds", []string{"message.timestamp.type", "LogAppendTime", before, "3900000", after, "600000"}},
		{"recoded-bounds", []string{"compression.type", "gzip", before, "3900000", after, "600000"}},
		{"no-bounds", []string{before, "9223372036854775807", after, "9223372036854775807"}},
		{"bounds-of-0", []string{before, "0", after, "0"}},
	}
}

// produceTimestamps sends records of all ages, in versions that differ in what they
// answer.
func produceTimestamps(r *conform.R, kind topicKind) {
	const minute = 60_000
	r.CreateTopic("t", 1, kind.configs...)
	cases := []struct {
		name  string
		times []int64
	}{
		{"an hour ago", []int64{r.T(0)}},
		{"55 minutes ago", []int64{r.T(5 * minute)}},
		{"70 minutes ago", []int64{r.T(-10 * minute)}},
		{"just now", []int64{r.T(60 * minute)}},
		{"in 5 minutes", []int64{r.T(65 * minute)}},
		{"in 15 minutes", []int64{r.T(75 * minute)}},
		{"one too old", []int64{r.T(0), r.T(-10 * minute), r.T(1)}},
		{"one too new", []int64{r.T(59 * minute), r.T(60 * minute), r.T(75 * minute)}},
		{"too old and too new", []int64{r.T(-10 * minute), r.T(75 * minute)}},
		{"-1", []int64{-1}},
		{"0", []int64{0}},
	}
	for _, v := range produceVersions() {
		for _, c := range cases {
			recs := recordsAt(c.times...)
			r.Send(label(v, "%s", c.name), produceOf(r, v, data{"t", 0, conform.Batch{Records: recs}.Bytes()}))
			bit := conform.Batch{Records: recs, Attributes: 0x08, Codec: 1}.Bytes()
			r.Send(label(v, "%s, gzip, LogAppendTime bit", c.name), produceOf(r, v, data{"t", 0, bit}))
		}
	}
	r.Ignore("Topics.Partitions.RecordBatches.Records.TimestampDelta")
	r.Send("read back", fetchOf(r, 12, from{"t", 0, 0}))
	r.Send("end", listOf(r, 7, -1, place{"t", 0}))
}
