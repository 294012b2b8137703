package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		r := newRig(t, Options{Handler: echo, Registerer: reg})
		c, bad := r.dial(), r.dial()
		c.send(metadata(1, "x"))
		c.expect("1:x")
		bad.send([]byte{0xff, 0, 0, 0})
		bad.expect("EOF")
		_ = bad.conn.Close()
		synctest.Wait()
		want := map[string]float64{
			"kafka_network_requestmetrics_requests_total Metadata": 1,
			"kafka_network_requestmetrics_totaltimems Metadata":    0, // a histogram, see TestRequestTimes
			"klamm_network_connections":                            1,
			"klamm_network_connections_accepted_total PLAINTEXT":   2,
			"klamm_network_connections_closed_total frame_size":    1,
			"klamm_network_requests_total":                         1,
			"klamm_network_requests_in_flight":                     0,
			"klamm_network_requests_working":                       0,
			"klamm_network_sent_bytes_total":                       9,
			"klamm_network_connections_muted":                      0,
			"klamm_network_frame_memory_bytes":                     0,
			"klamm_network_frame_memory_waits_total":               0,
			"klamm_network_request_waits_total":                    0,
			"klamm_network_free_buffer_bytes":                      0,
			"klamm_network_answer_copy_bytes":                      0,
			"klamm_network_buffer_misses_total":                    0,
			"klamm_network_answer_copies_refused_total":            0,
		}
		if diff := cmp.Diff(want, gathered(t, reg)); diff != "" {
			t.Error(diff)
		}
	})
}

// gathered is every series with a value, by name and label.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

// requestHistogram is the histogram of an API: how many requests there were, in how many
// milliseconds, and how many were not above each bound.
func requestHistogram(t *testing.T, reg *prometheus.Registry, request string) (count uint64, sum float64, upTo map[float64]uint64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "kafka_network_requestmetrics_totaltimems" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() != request {
				continue
			}
			upTo = map[float64]uint64{}
			for _, b := range m.GetHistogram().GetBucket() {
				upTo[b.GetUpperBound()] = b.GetCumulativeCount()
			}
			return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum(), upTo
		}
	}
	t.Fatalf("no times of %s", request)
	return 0, 0, nil
}

// The time of a request ends with its answer, however long that was waited for, and is
// counted for its API alone.
func TestRequestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var parked Pending
		var first *Request
		r := newRig(t, Options{Registerer: reg, Handler: HandlerFunc(func(_ context.Context, r *Request) Outcome {
			if r.Key == 0 {
				first = r
				return Outcome{Pending: &parked}
			}
			return Outcome{Response: respond(r, "answer")}
		})})
		r.dial().send(metadata(1, "at once"), metadata(2, "at once"))
		c := r.dial()
		c.send(produce(1, "parked"))
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		parked.Complete(Outcome{Response: respond(first, "done")})
		c.expect("1:done")
		synctest.Wait()
		for name, want := range map[string]struct {
			count, upTo100, upTo500 uint64
			sum                     float64
		}{"Produce": {1, 0, 1, 300}, "Metadata": {2, 2, 2, 0}} {
			count, sum, upTo := requestHistogram(t, reg, name)
			if count != want.count || sum != want.sum || upTo[100] != want.upTo100 || upTo[500] != want.upTo500 {
				t.Errorf("%s: %d in %v ms, %v; want %+v", name, count, sum, upTo, want)
			}
		}
	})
}
