package wire

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/protocol"
)

// requestTimes counts the requests of each API, and how long they took: from the last byte of
// the request until its answer is handed to the output, waits for replicas, for data and for
// other members of a group included (Kafka's RequestMetrics: RequestsPerSec, TotalTimeMs). A
// request costs a look at the clock and three plain atomics.
type requestTimes struct {
	byKey     []apiTimes // by API key
	requests  *prometheus.Desc
	totalTime *prometheus.Desc
}

// apiTimes are those of one API.
type apiTimes struct {
	name  string
	count [len(timeBounds) + 1]atomic.Int64 // how many were not above a bound, and were above the one before; last those above all
	sum   atomic.Int64                      // nanoseconds
}

// timeBounds are the bounds of the histogram's buckets.
var timeBounds = [...]time.Duration{
	100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
}

func newRequestTimes() *requestTimes {
	t := &requestTimes{
		requests:  prometheus.NewDesc("kafka_network_requestmetrics_requests_total", "Requests that were answered.", []string{"request"}, nil),
		totalTime: prometheus.NewDesc("kafka_network_requestmetrics_totaltimems", "Time of requests from their last byte to their answer, waits included.", []string{"request"}, nil),
	}
	for api := range protocol.Served() {
		for len(t.byKey) <= int(api.Key) {
			t.byKey = append(t.byKey, apiTimes{})
		}
		t.byKey[api.Key].name = api.Name
	}
	return t
}

// took counts a request of an API that is served.
func (t *requestTimes) took(key int16, d time.Duration) {
	of := &t.byKey[key]
	at := 0
	for at < len(timeBounds) && d > timeBounds[at] {
		at++
	}
	of.count[at].Add(1)
	of.sum.Add(int64(d))
}

// Describe is prometheus.Collector.
func (t *requestTimes) Describe(ch chan<- *prometheus.Desc) {
	ch <- t.requests
	ch <- t.totalTime
}

// Collect is prometheus.Collector. An API that nobody has used yet has no series.
func (t *requestTimes) Collect(ch chan<- prometheus.Metric) {
	for i := range t.byKey {
		of := &t.byKey[i]
		below := make(map[float64]uint64, len(timeBounds))
		all := uint64(0)
		for at := range of.count {
			all += uint64(of.count[at].Load())
			if at < len(timeBounds) {
				below[millis(timeBounds[at])] = all
			}
		}
		if all == 0 {
			continue
		}
		ch <- prometheus.MustNewConstMetric(t.requests, prometheus.CounterValue, float64(all), of.name)
		ch <- prometheus.MustNewConstHistogram(t.totalTime, all, millis(time.Duration(of.sum.Load())), below, of.name)
	}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
