package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/harness"
)

// BenchmarkTopics makes 10,000 topics with one partition, a hundred with each request,
// and looks at what they cost when nobody uses them, and at a stop and a start with them.
func BenchmarkTopics(b *testing.B) {
	const topics, perRequest = 10_000, 100
	broker := harness.Start(b)
	admin := kadm.NewClient(dial(b, broker.Addr))
	defer admin.Close()
	empty := resident(b, broker.Pid())
	begin := time.Now()
	for at := 0; at < topics; at += perRequest {
		names := make([]string, perRequest)
		for i := range names {
			names[i] = fmt.Sprintf("topic-%05d", at+i)
		}
		made, err := admin.CreateTopics(b.Context(), 1, 1, nil, names...)
		if err == nil {
			err = made.Error()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() { // once: what follows is measured by hand
	}
	b.ReportMetric(topics/time.Since(begin).Seconds(), "topics/s")
	b.ReportMetric(float64(resident(b, broker.Pid())-empty)/topics/1024, "KiB/topic")

	const window = 20 * time.Second
	before := cpu(b, broker.Pid())
	<-time.After(window)
	b.ReportMetric(100*(cpu(b, broker.Pid())-before).Seconds()/window.Seconds(), "%core")

	begin = time.Now()
	if code := broker.Stop(); code != 0 {
		b.Fatalf("exit code %d:\n%s", code, broker.Stderr())
	}
	b.ReportMetric(time.Since(begin).Seconds(), "s/stop")
	begin = time.Now()
	broker.Start()
	b.ReportMetric(time.Since(begin).Seconds(), "s/start")
}
