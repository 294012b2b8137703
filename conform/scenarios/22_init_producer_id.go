package scenarios

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func initProducerID() []conform.Scenario {
	return []conform.Scenario{
		{Name: "initproducerid/idempotent", Key: 22, Run: initIdempotent},
		{Name: "initproducerid/ids", Key: 22, Run: initIDs},
		{Name: "initproducerid/transactional", Key: 22, Run: initTransactional},
		{Name: "initproducerid/produce", Key: 22, Run: initAndProduce},
		{Name: "initproducerid/malformed", Key: 22, Run: initMalformed},
	}
}

// initRequest is an InitProducerId of a producer without transactions.
func initRequest() *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 60_000, -1, -1
	return req
}

// initIdempotent asks for ids without a transactional id.
func initIdempotent(r *conform.R) {
	type req = *kmsg.InitProducerIDRequest
	expect := func(name string, id int64, epoch int16) variant[req] {
		return since(3, "expecting "+name, func(q req) { q.ProducerID, q.ProducerEpoch = id, epoch })
	}
	timeout := func(name string, ms int32) variant[req] {
		return with("timeout "+name, func(q req) { q.TransactionTimeoutMillis = ms })
	}
	sendVariants(r, initRequest, []variant[req]{
		plain[req](),
		timeout("0", 0), timeout("-1", -1), timeout("max", 1<<31-1), timeout("min", -1<<31),
		expect("an id, no epoch", 5, -1),
		expect("an epoch, no id", -1, 5),
		expect("id and epoch", 5, 0),
		expect("id 0, epoch 0", 0, 0),
		expect("the last epoch", 5, 32767),
		expect("id -2, no epoch", -2, -1),
		expect("id -2, epoch -2", -2, -2),
		expect("no id, epoch -2", -1, -2),
		with("empty transactional id", func(q req) { q.TransactionalID = of("") }),
		with("empty transactional id, timeout -1", func(q req) { q.TransactionalID, q.TransactionTimeoutMillis = of(""), -1 }),
		since(3, "empty transactional id, an epoch, no id", func(q req) { q.TransactionalID, q.ProducerEpoch = of(""), 5 }),
		since(2, "unknown tags", func(q req) { unknownTags(&q.UnknownTags) }),
	})
}

// initIDs finds out whether ids are new and rise.
func initIDs(r *conform.R) {
	last := int64(-1)
	for _, v := range conform.Versions(22) {
		for _, conn := range []string{"main", "other"} {
			req := initRequest()
			req.Version = v
			resp, _ := r.SendOn(conn, label(v, "on %s", conn), req).(*kmsg.InitProducerIDResponse)
			if resp == nil {
				continue
			}
			r.Note(label(v, "on %s, greater than the last", conn), "%t", resp.ProducerID > last)
			last = resp.ProducerID
		}
	}
}

// awaitTransactions waits until the transaction coordinators are loaded, or refuse.
func awaitTransactions(r *conform.R) {
	begin := func() kmsg.Request {
		req := initRequest()
		req.Version, req.TransactionalID = 4, of(r.Name("await"))
		return req
	}
	r.Until("transaction coordinator", begin, func(resp kmsg.Response) bool {
		code := resp.(*kmsg.InitProducerIDResponse).ErrorCode
		return code < 14 || code > 16
	})
}

// initTransactional asks for ids of a transactional producer: a broker may have no
// transactions, but then has to say so in a way that clients understand.
func initTransactional(r *conform.R) {
	r.Ignore("ProducerID", "ProducerEpoch")
	awaitTransactions(r)
	for _, v := range conform.Versions(22) {
		req := initRequest()
		req.Version, req.TransactionalID = v, of(r.Name("t"))
		r.Send(label(v, "transactional id"), req)
		req.TransactionTimeoutMillis = 0
		r.Send(label(v, "transactional id, timeout 0"), req)
	}
}

// initAndProduce uses the ids that were given out.
func initAndProduce(r *conform.R) {
	r.CreateTopic("a", 1)
	for _, v := range conform.Versions(22) {
		req := initRequest()
		req.Version = v
		resp, ok := r.Send(label(v, "id"), req).(*kmsg.InitProducerIDResponse)
		if !ok {
			r.Fail("no producer id")
		}
		for seq := range int32(3) {
			batch := conform.Batch{
				Records: r.Values("x"), Idempotent: true,
				ProducerID: resp.ProducerID, ProducerEpoch: resp.ProducerEpoch, FirstSequence: seq,
			}
			r.Send(label(v, "sequence %d", seq), produceOf(r, 12, data{"a", 0, batch.Bytes()}))
			r.Send(label(v, "sequence %d again", seq), produceOf(r, 12, data{"a", 0, batch.Bytes()}))
		}
	}
	r.Send("read back", fetchOf(r, 12, from{"a", 0, 0}))
}

// initMalformed sends bodies that are no request.
func initMalformed(r *conform.R) {
	for _, v := range conform.Versions(22) {
		req := initRequest()
		req.Version = v
		tryMalformed(r, req)
	}
	tryVersionsOutside(r, 22)
}
