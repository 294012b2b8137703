package scenarios

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func transactions() []conform.Scenario {
	txn := []int16{8, 9, 10, 22, 24, 25, 26, 28}
	all := []conform.Scenario{
		{Name: "add_partitions_to_txn/errors", Key: 24, Needs: txn, Run: addPartitionsErrors},
		{Name: "add_offsets_to_txn/errors", Key: 25, Needs: txn, Run: addOffsetsErrors},
		{Name: "end_txn/states", Key: 26, Needs: txn, Run: endStates},
		{Name: "write_txn_markers/errors", Key: 27, Needs: txn, Run: markerErrors},
		{Name: "txn_offset_commit/errors", Key: 28, Needs: txn, Run: txnCommitErrors},
		{Name: "describe_transactions/states", Key: 65, Needs: txn, Run: describeTransactions},
		{Name: "list_transactions/filters", Key: 66, Needs: txn, Run: listTransactions},
	}
	return append(all,
		conform.Scenario{Name: "init_producer_id/transactional_ids", Key: 22, Needs: txn, Run: initTransactionalIDs},
		conform.Scenario{Name: "end_txn/version_1", Key: 26, Needs: txn, Run: func(r *conform.R) { wholeTransactions(r, 3) }},
		conform.Scenario{Name: "end_txn/version_2", Key: 26, Needs: txn, Run: func(r *conform.R) { wholeTransactions(r, 5) }},
	)
}

// transactor is a transactional producer of a scenario.
type transactor struct {
	r     *conform.R
	id    string
	pid   int64
	epoch int16
	seq   int32
}

func newTransactor(r *conform.R, name string) *transactor {
	t := &transactor{r: r, id: r.Name(name)}
	r.Until("transaction coordinator", func() kmsg.Request { return find(3, 1, t.id) }, func(resp kmsg.Response) bool {
		return resp.(*kmsg.FindCoordinatorResponse).ErrorCode == 0
	})
	r.Until("producer id of "+name, func() kmsg.Request { return t.init(4) }, func(resp kmsg.Response) bool {
		a := resp.(*kmsg.InitProducerIDResponse)
		t.pid, t.epoch = a.ProducerID, a.ProducerEpoch
		return a.ErrorCode == 0
	})
	return t
}

func (t *transactor) init(version int16) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis = version, &t.id, 60_000
	req.ProducerID, req.ProducerEpoch = -1, -1
	return req
}

func (t *transactor) add(version int16, topic string, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = version, t.id, t.pid, t.epoch
	old := kmsg.NewAddPartitionsToTxnRequestTopic()
	old.Topic, old.Partitions = t.r.Name(topic), partitions
	req.Topics = append(req.Topics, old)
	one := kmsg.NewAddPartitionsToTxnRequestTransaction()
	one.TransactionalID, one.ProducerID, one.ProducerEpoch = t.id, t.pid, t.epoch
	topicOf := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
	topicOf.Topic, topicOf.Partitions = old.Topic, partitions
	one.Topics = append(one.Topics, topicOf)
	req.Transactions = append(req.Transactions, one)
	return req
}

func (t *transactor) end(version int16, commit bool) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = version, t.id, t.pid, t.epoch, commit
	return req
}

// produce writes one record of the transaction.
func (t *transactor) produce(version int16, topic string, partition int32, value string) *kmsg.ProduceRequest {
	b := conform.Batch{
		Records: t.r.Values(value), Attributes: 0x10, Idempotent: true,
		ProducerID: t.pid, ProducerEpoch: t.epoch, FirstSequence: t.seq,
	}
	req := t.r.ProduceTo(version, topic, partition, b.Bytes())
	req.TransactionID = &t.id
	t.seq++
	return req
}

// ended learns the producer's next id and epoch (KIP-890) and begins its sequence anew.
func (t *transactor) ended(resp kmsg.Response) {
	a, ok := resp.(*kmsg.EndTxnResponse)
	if !ok || a.ErrorCode != 0 || a.Version < 5 {
		return
	}
	t.pid, t.epoch, t.seq = a.ProducerID, a.ProducerEpoch, 0
}

// settled waits until the last transaction's markers are written.
func (t *transactor) settled() {
	describe := func() kmsg.Request {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{t.id}
		return req
	}
	t.r.Until("end of the transaction", describe, func(resp kmsg.Response) bool {
		state := resp.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State
		return state == "Empty" || state == "CompleteCommit" || state == "CompleteAbort"
	})
}

// wholeTransactions commits and aborts, with the first or the second version of the
// transaction protocol, and looks at what readers see meanwhile.
func wholeTransactions(r *conform.R, version int16) {
	r.CreateTopic("a", 2)
	t := newTransactor(r, "t")
	produce := map[int16]int16{3: 11, 5: 12}[version]
	look := func(what string) {
		for _, isolation := range []int8{0, 1} {
			req := r.FetchFrom(12, "a", 0, 0)
			req.IsolationLevel, req.MaxWaitMillis = isolation, 0
			r.Send(fmt.Sprintf("%s: fetch, isolation %d", what, isolation), req)
			list := listNothing(7)
			list.IsolationLevel = isolation
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = r.Name("a")
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp, p.CurrentLeaderEpoch = -1, -1
			topic.Partitions = append(topic.Partitions, p)
			list.Topics = append(list.Topics, topic)
			r.Send(fmt.Sprintf("%s: list offsets, isolation %d", what, isolation), list)
		}
	}
	for i, commit := range []bool{true, false, true} {
		round := string(rune('1' + i))
		if version < 5 {
			r.Send(round+" add", t.add(3, "a", 0))
		}
		r.Send(round+" produce", t.produce(produce, "a", 0, "x"+round))
		look(round + " open")
		t.ended(r.Send(round+" end", t.end(version, commit)))
		t.settled()
		look(round + " ended")
	}
}

func initTransactionalIDs(r *conform.R) {
	t := newTransactor(r, "t")
	for _, v := range conform.Versions(22) {
		r.Send(label(v, "again"), t.init(v))
		empty := t.init(v)
		empty.TransactionalID = of("")
		r.Send(label(v, "empty id"), empty)
		for _, ms := range []int32{0, -1, 900_000, 900_001} {
			req := t.init(v)
			req.TransactionTimeoutMillis = ms
			r.Send(label(v, "timeout %d", ms), req)
		}
		if v >= 3 {
			known := t.init(v)
			known.ProducerID, known.ProducerEpoch = t.pid, t.epoch
			r.Send(label(v, "known id, old epoch"), known)
			known.ProducerEpoch = -1
			r.Send(label(v, "id without epoch"), known)
			known.ProducerID, known.ProducerEpoch = -1, 3
			r.Send(label(v, "epoch without id"), known)
		}
	}
}

func addPartitionsErrors(r *conform.R) {
	r.CreateTopic("a", 2)
	t := newTransactor(r, "t")
	mk := func() *kmsg.AddPartitionsToTxnRequest { return t.add(0, "a", 0) }
	each := func(name string, edit func(id *string, pid *int64, epoch *int16)) variant[*kmsg.AddPartitionsToTxnRequest] {
		return with(name, func(q *kmsg.AddPartitionsToTxnRequest) {
			edit(&q.TransactionalID, &q.ProducerID, &q.ProducerEpoch)
			one := &q.Transactions[0]
			edit(&one.TransactionalID, &one.ProducerID, &one.ProducerEpoch)
		})
	}
	sendVariants(r, mk, []variant[*kmsg.AddPartitionsToTxnRequest]{
		plain[*kmsg.AddPartitionsToTxnRequest](),
		with("once more", func(*kmsg.AddPartitionsToTxnRequest) {}),
		each("unknown id", func(id *string, _ *int64, _ *int16) { *id += "-nope" }),
		each("empty id", func(id *string, _ *int64, _ *int16) { *id = "" }),
		each("wrong producer", func(_ *string, pid *int64, _ *int16) { *pid += 1000 }),
		each("old epoch", func(_ *string, _ *int64, epoch *int16) { *epoch-- }),
		each("new epoch", func(_ *string, _ *int64, epoch *int16) { *epoch++ }),
		with("unknown topic", func(q *kmsg.AddPartitionsToTxnRequest) {
			q.Topics[0].Topic += "-nope"
			q.Transactions[0].Topics[0].Topic += "-nope"
		}),
		with("unknown partition", func(q *kmsg.AddPartitionsToTxnRequest) {
			q.Topics[0].Partitions = []int32{1, 9}
			q.Transactions[0].Topics[0].Partitions = []int32{1, 9}
		}),
		since(4, "verify only", func(q *kmsg.AddPartitionsToTxnRequest) { q.Transactions[0].VerifyOnly = true }),
		since(4, "no transactions", func(q *kmsg.AddPartitionsToTxnRequest) { q.Transactions = nil }),
	})
	t.ended(r.Send("abort", t.end(3, false)))
}

func addOffsetsErrors(r *conform.R) {
	awaitCoordinator(r, "g")
	t := newTransactor(r, "t")
	mk := func() *kmsg.AddOffsetsToTxnRequest {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = t.id, t.pid, t.epoch, r.Name("g")
		return req
	}
	sendVariants(r, mk, []variant[*kmsg.AddOffsetsToTxnRequest]{
		plain[*kmsg.AddOffsetsToTxnRequest](),
		with("unknown id", func(q *kmsg.AddOffsetsToTxnRequest) { q.TransactionalID += "-nope" }),
		with("empty id", func(q *kmsg.AddOffsetsToTxnRequest) { q.TransactionalID = "" }),
		with("empty group", func(q *kmsg.AddOffsetsToTxnRequest) { q.Group = "" }),
		with("wrong producer", func(q *kmsg.AddOffsetsToTxnRequest) { q.ProducerID += 1000 }),
		with("old epoch", func(q *kmsg.AddOffsetsToTxnRequest) { q.ProducerEpoch-- }),
		with("new epoch", func(q *kmsg.AddOffsetsToTxnRequest) { q.ProducerEpoch++ }),
	})
	r.Send("abort", t.end(3, false))
}

func endStates(r *conform.R) {
	r.CreateTopic("a", 1)
	t := newTransactor(r, "t")
	for _, v := range conform.Versions(26) {
		r.Send(label(v, "unknown id"), func() *kmsg.EndTxnRequest { q := t.end(v, true); q.TransactionalID += "-nope"; return q }())
		wrong := t.end(v, true)
		wrong.ProducerID += 1000
		r.Send(label(v, "wrong producer"), wrong)
		old := t.end(v, true)
		old.ProducerEpoch--
		r.Send(label(v, "old epoch"), old)
		next := t.end(v, true)
		next.ProducerEpoch++
		r.Send(label(v, "new epoch"), next)
		for _, commit := range []bool{true, false} {
			r.Send(label(v, "add, commit %v", commit), t.add(3, "a", 0))
			before := *t
			t.ended(r.Send(label(v, "end, commit %v", commit), t.end(v, commit)))
			t.settled()
			r.Send(label(v, "again, commit %v", commit), before.end(v, commit))
			r.Send(label(v, "the other, commit %v", commit), before.end(v, !commit))
		}
	}
}

func markerErrors(r *conform.R) {
	r.CreateTopic("a", 2)
	mk := func() *kmsg.WriteTxnMarkersRequest {
		req := kmsg.NewPtrWriteTxnMarkersRequest()
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.Committed, m.CoordinatorEpoch = 1<<40, true, 3
		t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		t.Topic, t.Partitions = r.Name("a"), []int32{0}
		m.Topics = append(m.Topics, t)
		req.Markers = append(req.Markers, m)
		return req
	}
	sendVariants(r, mk, []variant[*kmsg.WriteTxnMarkersRequest]{
		plain[*kmsg.WriteTxnMarkersRequest](),
		with("abort", func(q *kmsg.WriteTxnMarkersRequest) { q.Markers[0].Committed = false }),
		with("old coordinator", func(q *kmsg.WriteTxnMarkersRequest) { q.Markers[0].CoordinatorEpoch = 1 }),
		with("unknown topic", func(q *kmsg.WriteTxnMarkersRequest) { q.Markers[0].Topics[0].Topic += "-nope" }),
		with("unknown partition", func(q *kmsg.WriteTxnMarkersRequest) { q.Markers[0].Topics[0].Partitions = []int32{1, 9} }),
		with("no topics", func(q *kmsg.WriteTxnMarkersRequest) { q.Markers[0].Topics = nil }),
		with("no markers", func(q *kmsg.WriteTxnMarkersRequest) { q.Markers = nil }),
	})
	r.Send("read", r.FetchFrom(12, "a", 0, 0))
}

func txnCommitErrors(r *conform.R) {
	r.CreateTopic("a", 2)
	r.OwnsGroup("g")
	awaitCoordinator(r, "g")
	t := newTransactor(r, "t")
	offsets := kmsg.NewPtrAddOffsetsToTxnRequest()
	offsets.Version, offsets.TransactionalID, offsets.ProducerID, offsets.ProducerEpoch = 3, t.id, t.pid, t.epoch
	offsets.Group = r.Name("g")
	r.Send("add offsets", offsets)
	for _, v := range conform.Versions(28) {
		mk := func() *kmsg.TxnOffsetCommitRequest {
			req := kmsg.NewPtrTxnOffsetCommitRequest()
			req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = t.id, r.Name("g"), t.pid, t.epoch
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			topic.Topic = r.Name("a")
			if v >= 6 {
				topic.TopicID = r.TopicID("a")
			}
			p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			p.Offset = int64(v)
			topic.Partitions = append(topic.Partitions, p)
			req.Topics = append(req.Topics, topic)
			return req
		}
		sendVariantsIn(r, v, mk, []variant[*kmsg.TxnOffsetCommitRequest]{
			plain[*kmsg.TxnOffsetCommitRequest](),
			with("empty group", func(q *kmsg.TxnOffsetCommitRequest) { q.Group = "" }),
			with("unknown partition", func(q *kmsg.TxnOffsetCommitRequest) { q.Topics[0].Partitions[0].Partition = 9 }),
			with("unknown topic", func(q *kmsg.TxnOffsetCommitRequest) {
				q.Topics[0].Topic, q.Topics[0].TopicID = r.Name("nope"), r.TopicID("nope")
			}),
			with("old epoch", func(q *kmsg.TxnOffsetCommitRequest) { q.ProducerEpoch-- }),
			since(3, "stranger", func(q *kmsg.TxnOffsetCommitRequest) { q.MemberID, q.Generation = "stranger", 3 }),
		})
		if v >= 2 {
			read := fetchOffsets(r, 7, r.Name("g"), "a")
			r.Send(label(v, "read"), read)
			read.RequireStable = true
			r.Send(label(v, "read stable"), read)
		}
	}
	r.Send("commit", t.end(3, true))
	t.settled()
	r.Until("offsets committed", func() kmsg.Request {
		req := fetchOffsets(r, 7, r.Name("g"), "a")
		req.RequireStable = true
		return req
	}, func(resp kmsg.Response) bool {
		return resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].ErrorCode == 0
	})
	r.Send("read after commit", fetchOffsets(r, 7, r.Name("g"), "a"))
}

func describeTransactions(r *conform.R) {
	r.CreateTopic("a", 2)
	t := newTransactor(r, "t")
	describe := func(what string, ids ...string) {
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = ids
		r.Send(what, req)
	}
	describe("empty", t.id)
	r.Send("add", t.add(3, "a", 1))
	describe("ongoing", t.id)
	r.Send("commit", t.end(3, true))
	t.settled()
	describe("complete", t.id)
	describe("unknown, empty, twice", r.Name("nope"), "", t.id, t.id)
	describe("none")
}

func listTransactions(r *conform.R) {
	r.CreateTopic("a", 2)
	t := newTransactor(r, "t")
	r.Send("add", t.add(3, "a", 0))
	for _, v := range conform.Versions(66) {
		list := func(what string, edit func(q *kmsg.ListTransactionsRequest)) {
			req := kmsg.NewPtrListTransactionsRequest()
			req.Version, req.ProducerIDFilters, req.DurationFilterMillis = v, []int64{t.pid}, -1
			edit(req)
			r.Send(label(v, "%s", what), req)
		}
		list("by producer", func(*kmsg.ListTransactionsRequest) {})
		for _, state := range []string{"Ongoing", "ongoing", "Empty", "Nonsense", "Dead"} {
			list("state "+state, func(q *kmsg.ListTransactionsRequest) { q.StateFilters = []string{state} })
		}
		if v >= 1 {
			list("running for a minute", func(q *kmsg.ListTransactionsRequest) { q.DurationFilterMillis = time.Minute.Milliseconds() })
			list("running for no time", func(q *kmsg.ListTransactionsRequest) { q.DurationFilterMillis = 0 })
		}
		if v >= 2 {
			for _, pattern := range []string{".*", "nope.*", "", "("} {
				list("pattern "+pattern, func(q *kmsg.ListTransactionsRequest) { q.TransactionalIDPattern = &pattern })
			}
		}
	}
	r.Send("abort", t.end(3, false))
}
