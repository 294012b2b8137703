package javaclient

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/klamm-mq/klamm/compat-tests/groups"
	"github.com/klamm-mq/klamm/compat-tests/java"
)

// groupCommand runs Kafka's kafka-consumer-groups, and expects a pattern in what it says.
func groupCommand(t *testing.T, addr, want string, args ...string) {
	t.Helper()
	cmd, err := java.Command("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", append([]string{"--bootstrap-server", addr}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile("(?m)"+want).Match(out) {
		t.Errorf("%v: %v, want %s:\n%s", args, err, want, out)
	}
}

// Kafka's tool for administrators lists, describes, resets and deletes a group.
func TestConsumerGroupCommand(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	addr := groups.StartCluster(t).Address()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := client.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	member, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ClientID("reader"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	for n := 0; n < 10; {
		n += member.PollFetches(ctx).NumRecords()
		if ctx.Err() != nil {
			t.Fatal("the member reads nothing")
		}
	}
	if err := member.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}

	groupCommand(t, addr, `^billing +Stable`, "--list", "--state")
	groupCommand(t, addr, `^billing +Classic`, "--list", "--type")
	groupCommand(t, addr, `^billing +orders +0 +10 +10 +0 +reader-\S+ +/127\.0\.0\.1 +reader`, "--describe", "--group", "billing")
	groupCommand(t, addr, `^billing +\S+ +\(1\) +range +Stable +1`, "--describe", "--group", "billing", "--state")
	groupCommand(t, addr, `^billing +reader-\S+ +/127\.0\.0\.1 +reader +1`, "--describe", "--group", "billing", "--members")
	groupCommand(t, addr, `the current state is Stable`, "--reset-offsets", "--group", "billing", "--topic", "orders", "--to-earliest", "--execute")
	groupCommand(t, addr, `not empty`, "--delete", "--group", "billing")
	member.Close()
	groupCommand(t, addr, `^billing +orders +0 +4`, "--reset-offsets", "--group", "billing", "--topic", "orders", "--to-offset", "4", "--execute")
	groupCommand(t, addr, `^billing +orders +0 +4 +10 +6`, "--describe", "--group", "billing")
	groupCommand(t, addr, `^orders +0 +Successful`, "--delete-offsets", "--group", "billing", "--topic", "orders:0")
	groupCommand(t, addr, `was successful`, "--delete", "--group", "billing")
}
