package protocol

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// The versions are Kafka 4.4's, the same as the client library knows them; it does not know those
// of controller listeners.
func TestTableMatchesKafka44(t *testing.T) {
	stable := kversion.V4_4_0()
	for api := range Served() {
		if !strings.EqualFold(api.Name, kmsg.NameForKey(api.Key)) && api.Name != "InitProducerId" && api.Name != "AlterPartitionReassignments" {
			t.Errorf("key %d is called %s, want %s", api.Key, api.Name, kmsg.NameForKey(api.Key))
		}
		if hi, ok := stable.LookupMaxKeyVersion(api.Key); api.Listeners&BrokerListener != 0 && (!ok || hi != api.MaxVersion) {
			t.Errorf("%s up to %d, Kafka 4.4 up to %d", api.Name, api.MaxVersion, hi)
		}
		req := kmsg.RequestForKey(api.Key)
		if req.MaxVersion() < api.MaxVersion {
			t.Errorf("%s up to %d, the codec knows %d", api.Name, api.MaxVersion, req.MaxVersion())
		}
		for v := api.MinVersion; v <= api.MaxVersion; v++ {
			req.SetVersion(v)
			if req.IsFlexible() != api.FlexibleRequest(v) {
				t.Errorf("%s %d: flexible = %v, the codec says %v", api.Name, v, api.FlexibleRequest(v), req.IsFlexible())
			}
		}
	}
}

// The table is held against a second one, written by hand from Kafka's message files.
func TestTable(t *testing.T) {
	want := [][4]int16{ // key, minimum, maximum, advertised minimum
		{0, 3, 13, 0},
		{1, 4, 18, 4},
		{2, 1, 11, 1},
		{3, 0, 13, 0},
		{8, 2, 10, 2},
		{9, 1, 10, 1},
		{10, 0, 6, 0},
		{11, 0, 9, 0},
		{12, 0, 4, 0},
		{13, 0, 5, 0},
		{14, 0, 5, 0},
		{15, 0, 6, 0},
		{16, 0, 5, 0},
		{17, 0, 1, 0},
		{18, 0, 5, 0},
		{19, 2, 7, 2},
		{20, 1, 6, 1},
		{21, 0, 2, 0},
		{22, 0, 5, 0},
		{23, 2, 4, 2},
		{29, 1, 3, 1},
		{30, 1, 3, 1},
		{31, 1, 3, 1},
		{32, 1, 4, 1},
		{33, 0, 2, 0},
		{34, 1, 2, 1},
		{35, 1, 5, 1},
		{36, 0, 2, 0},
		{37, 0, 3, 0},
		{38, 1, 3, 1},
		{39, 1, 2, 1},
		{40, 1, 2, 1},
		{41, 1, 3, 1},
		{42, 0, 3, 0},
		{43, 0, 2, 0},
		{44, 0, 1, 0},
		{45, 0, 1, 0},
		{46, 0, 0, 0},
		{47, 0, 0, 0},
		{48, 0, 1, 0},
		{49, 0, 1, 0},
		{55, 0, 2, 0},
		{56, 2, 3, 2},
		{57, 0, 2, 0},
		{58, 0, 0, 0},
		{60, 0, 2, 0},
		{61, 0, 0, 0},
		{62, 0, 4, 0},
		{63, 0, 2, 0},
		{64, 0, 0, 0},
		{67, 0, 0, 0},
		{70, 0, 0, 0},
		{71, 0, 0, 0},
		{72, 0, 0, 0},
		{73, 0, 0, 0},
		{74, 0, 1, 0},
		{75, 0, 0, 0},
		{80, 0, 1, 0},
		{81, 0, 0, 0},
		{82, 0, 0, 0},
	}
	var got [][4]int16
	for api := range Served() {
		got = append(got, [4]int16{api.Key, api.MinVersion, api.MaxVersion, api.AdvertisedMin})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	sorted := slices.IsSortedFunc(APIs(), func(a, b API) int { return int(a.Key) - int(b.Key) })
	if !sorted {
		t.Error("the table is not in the order of the keys")
	}
}

func TestLookup(t *testing.T) {
	for api := range Served() {
		if got, ok := Lookup(api.Key); !ok || got != api {
			t.Errorf("Lookup(%d) = %v, %v", api.Key, got, ok)
		}
	}
	for _, key := range []int16{-1, 4, 7, 59, 69, 200, 32767, -32768} {
		if got, ok := Lookup(key); ok {
			t.Errorf("Lookup(%d) finds %s", key, got.Name)
		}
	}
}

func TestServes(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		kind         Listener
		want         bool
	}{
		{0, 2, BrokerListener, false}, // advertised, yet refused
		{0, 3, BrokerListener, true},
		{0, 13, BrokerListener, true},
		{0, 14, BrokerListener, false},
		{0, 9, ControllerListener, false},
		{18, 0, ControllerListener, true},
		{18, 99, BrokerListener, false},
		{22, 6, BrokerListener, false}, // unstable in 4.4 (KIP-939)
	} {
		api, _ := Lookup(c.key)
		if got := api.Serves(c.version, c.kind); got != c.want {
			t.Errorf("%s %d on %b = %v", api.Name, c.version, c.kind, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		key, version      int16
		request, response bool
	}{
		{0, 8, false, false},
		{0, 9, true, true},
		{18, 2, false, false},
		{18, 3, true, false}, // the exception
		{18, 99, true, false},
		{60, 0, true, true},
	} {
		api, _ := Lookup(c.key)
		if got := api.FlexibleRequest(c.version); got != c.request {
			t.Errorf("%s %d: request header flexible = %v", api.Name, c.version, got)
		}
		if got := api.FlexibleResponse(c.version); got != c.response {
			t.Errorf("%s %d: response header flexible = %v", api.Name, c.version, got)
		}
	}
}
