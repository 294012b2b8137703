package oracle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/compat-tests/harness"
	"github.com/klamm-mq/klamm/compat-tests/java"
	"github.com/klamm-mq/klamm/conform"
	"github.com/klamm-mq/klamm/conform/scenarios"
)

// warmWait is how long a broker may take until its coordinators have loaded.
const warmWait = 5 * time.Minute

func startKlamm(t *testing.T, settings ...string) *harness.Broker {
	t.Helper()
	b := harness.Start(t, append(scenarios.Settings(), settings...)...)
	warm(t, b.Addr)
	return b
}

func startKafka(t *testing.T, settings ...string) *java.Broker {
	t.Helper()
	b := java.StartBroker(t, harness.FreePort(t), harness.FreePort(t), append(scenarios.Settings(), settings...)...)
	warm(t, b.Addr)
	return b
}

func connect(t *testing.T, addr string) *conform.Target {
	t.Helper()
	target, err := conform.Connect(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// warm waits until whatever a broker loads, or creates on demand, is there: until then it
// answers that coordinators are loading, and that is no difference.
func warm(t *testing.T, addr string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), warmWait)
	defer cancel()
	for {
		err := cold(ctx, connect(t, addr), client.SeedBrokers()[0])
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s is not warm after %v: %v", addr, warmWait, err)
		}
	}
}

// cold is why a broker is not warm.
func cold(ctx context.Context, target *conform.Target, b *kgo.Broker) error {
	checks := []struct {
		key   int16
		check func(context.Context, *kgo.Broker) error
	}{
		{int16(kmsg.InitProducerID), coldProducerIDs},
		{int16(kmsg.DescribeGroups), coldGroups},
		{int16(kmsg.DescribeTransactions), coldTransactions},
	}
	for _, c := range checks {
		if target.Advertises(c.key) {
			if err := c.check(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func coldProducerIDs(ctx context.Context, b *kgo.Broker) error {
	resp, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, requestor{b})
	if err != nil {
		return err
	}
	return notZero("InitProducerId", resp.ErrorCode)
}

// names are enough to have some on each partition of a coordinator's topic.
func names() (all []string) {
	for i := range 500 {
		all = append(all, fmt.Sprintf("warm-%d", i))
	}
	return all
}

func coldGroups(ctx context.Context, b *kgo.Broker) error {
	if err := coldCoordinators(ctx, b, 0); err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = names()
	resp, err := req.RequestWith(ctx, requestor{b})
	if err != nil {
		return err
	}
	for _, g := range resp.Groups {
		const unknownGroup = 69 // from version 6 on
		if g.ErrorCode != unknownGroup && g.ErrorCode != 0 {
			return notZero("DescribeGroups", g.ErrorCode)
		}
	}
	return nil
}

func coldTransactions(ctx context.Context, b *kgo.Broker) error {
	if err := coldCoordinators(ctx, b, 1); err != nil {
		return err
	}
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = names()
	resp, err := req.RequestWith(ctx, requestor{b})
	if err != nil {
		return err
	}
	for _, tx := range resp.TransactionStates {
		const unknownID = 105
		if tx.ErrorCode != unknownID {
			return notZero("DescribeTransactions", tx.ErrorCode)
		}
	}
	return nil
}

// coldCoordinators also has the topic of the coordinators created.
func coldCoordinators(ctx context.Context, b *kgo.Broker, kind int8) error {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = kind, names()
	resp, err := req.RequestWith(ctx, requestor{b})
	if err != nil {
		return err
	}
	for _, c := range resp.Coordinators {
		if c.ErrorCode != 0 {
			return notZero("FindCoordinator", c.ErrorCode)
		}
	}
	return nil
}

func notZero(api string, code int16) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s answers %d", api, code)
}

// requestor is a broker as kmsg wants it.
type requestor struct{ b *kgo.Broker }

func (r requestor) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return r.b.Request(ctx, req)
}
