package broker_test

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/klamm-mq/klamm/broker"
	"github.com/klamm-mq/klamm/broker/brokertest"
)

// gather gives the number of series of each metric of ours, by name with its labels:
// "name{a,b}".
func gather(t *testing.T, registry *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "klamm_") && !strings.HasPrefix(name, "kafka_") {
			t.Errorf("metric %s has a name of somebody else's", name)
		}
		if f.GetHelp() == "" {
			t.Errorf("metric %s does not say what it is", name)
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			series[key]++
		}
	}
	return series
}

// startMeasured starts a broker with two log directories and two listeners, and lets it
// turn a connection away, since some metrics appear with their first event.
func startMeasured(t *testing.T, m *brokertest.Machine) *prometheus.Registry {
	t.Helper()
	m.Settings = append(m.Settings, "log.dirs=/d1,/d2",
		"listeners=PLAINTEXT://broker-1:9092,OTHER://broker-1:9093", "inter.broker.listener.name=OTHER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT", "max.connections=10")
	env := m.Env()
	b, err := broker.Start(t.Context(), brokertest.Config(t, m.Settings...), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { brokertest.Stop(t, b) })
	var conns []net.Conn
	for range 12 {
		conn, err := m.Dial(t.Context(), "tcp", m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	time.Sleep(time.Second)
	for _, c := range conns {
		_ = c.Close()
	}
	time.Sleep(time.Second)
	return env.Registry
}

// The number of series does not grow with what clients do.
func TestMetricsStayFew(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		registry := startMeasured(t, m)
		createTopic(t, m, "first", 1)
		produce(t, newClient(t, m), "first", "x")
		consume(t, m, "first", 1)
		before := gather(t, registry)
		for i := range 50 {
			topic := fmt.Sprint("t", i)
			createTopic(t, m, topic, 3)
			client := newClient(t, m)
			produce(t, client, topic, "x")
			consume(t, m, topic, 1)
			client.Close()
		}
		expect(t, "series", gather(t, registry), before)
		total := 0
		for _, n := range before {
			total += n
		}
		if total > 200 {
			t.Errorf("%d series", total)
		}
	})
}

func TestMetricsCountTraffic(t *testing.T) {
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		registry := startMeasured(t, m)
		produce(t, newClient(t, m), "t", numbered(0, 100)...)
		consume(t, m, "t", 100)
		consume(t, m, "t", 100)
		in, out := value(t, registry, "kafka_server_brokertopicmetrics_bytesin_total"), value(t, registry, "kafka_server_brokertopicmetrics_bytesout_total")
		if in < 500 || out != 2*in {
			t.Errorf("%v bytes in and %v out", in, out)
		}
		if n := value(t, registry, "kafka_server_brokertopicmetrics_messagesin_total"); n != 100 {
			t.Errorf("%v messages", n)
		}
		if n := value(t, registry, "klamm_durability_info", "fsync"); n != 1 {
			t.Errorf("durability info %v", n)
		}
		if n := value(t, registry, "klamm_build_info", broker.Version); n != 1 {
			t.Errorf("build info %v", n)
		}
	})
}

// value is that of the only series of a metric, or of the one that has a label's value.
func value(t *testing.T, registry *prometheus.Registry, name string, label ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			has := len(label) == 0
			for _, l := range m.GetLabel() {
				has = has || l.GetValue() == label[0]
			}
			if has {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %v", name, label)
	return 0
}

// docs/metrics.md lists each metric with its labels, and none that does not exist.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+(?:\\{[a-zA-Z_,]+\\})?)` \\| [^|]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row[1])
	}
	inBubble(t, func(t *testing.T, m *brokertest.Machine) {
		registry := startMeasured(t, m)
		for _, key := range []string{"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"} {
			setQuota(t, m, "user", "", key, 1e9)
		}
		measuredGroup(t, m)
		var exist []string
		for name := range gather(t, registry) {
			exist = append(exist, name)
		}
		slices.Sort(exist)
		slices.Sort(documented)
		expect(t, "metrics, documented (-) and existing (+)", exist, documented)
	})
}
