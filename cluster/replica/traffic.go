package replica

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// traffic counts what clients bring and take, over all topics: a series per topic would
// grow without bound (Kafka's BrokerTopicMetrics without topic).
type traffic struct {
	messagesIn, bytesIn, bytesOut  atomic.Int64
	replicationBytesIn             atomic.Int64
	replicationBytesOut            atomic.Int64
	produceRequests, fetchRequests atomic.Int64 // one for each partition of each request
	failedProduces, failedFetches  atomic.Int64
}

// produced notes the append of one partition of a request.
func (t *traffic) produced(r *AppendResult) {
	t.produceRequests.Add(1)
	if r.Err != nil {
		t.failedProduces.Add(1)
		return
	}
	t.messagesIn.Add(r.appendedRecords)
	t.bytesIn.Add(r.appendedBytes)
}

// fetched notes what came of a consumer's fetch.
func (t *traffic) fetched(req *FetchRequest) {
	if req.ReplicaID >= 0 {
		return
	}
	var failed int64
	for i := range req.Partitions {
		failed += int64(count(req.Partitions[i].Result.Err != nil))
	}
	t.fetchRequests.Add(int64(len(req.Partitions)))
	t.failedFetches.Add(failed)
}

// sent notes what is sent to a fetcher.
func (t *traffic) sent(req *FetchRequest) {
	var size int64
	for i := range req.Partitions {
		size += int64(req.Partitions[i].Result.size())
	}
	if req.ReplicaID >= 0 {
		t.replicationBytesOut.Add(size)
		return
	}
	t.bytesOut.Add(size)
}

// register makes the metrics under the names that Kafka's usual Prometheus exporter gives
// to kafka.server:type=BrokerTopicMetrics.
func (t *traffic) register(reg prometheus.Registerer) {
	for _, c := range []struct {
		name, help string
		n          *atomic.Int64
	}{
		{"messagesin", "Records appended for clients.", &t.messagesIn},
		{"bytesin", "Bytes of batches appended for clients.", &t.bytesIn},
		{"bytesout", "Bytes of batches sent to consumers.", &t.bytesOut},
		{"replicationbytesin", "Bytes of batches that followers here were sent.", &t.replicationBytesIn},
		{"replicationbytesout", "Bytes of batches sent to followers.", &t.replicationBytesOut},
		{"totalproducerequests", "Partitions of Produce requests.", &t.produceRequests},
		{"failedproducerequests", "Partitions of Produce requests that were not appended to.", &t.failedProduces},
		{"totalfetchrequests", "Partitions of consumers' Fetch requests.", &t.fetchRequests},
		{"failedfetchrequests", "Partitions of consumers' Fetch requests that were answered with an error.", &t.failedFetches},
	} {
		reg.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "kafka_server_brokertopicmetrics_" + c.name + "_total", Help: c.help},
			func() float64 { return float64(c.n.Load()) },
		))
	}
}
