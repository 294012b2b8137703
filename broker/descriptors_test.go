package broker

import "testing"

// TestConnectionsLeaveDescriptorsToLogs: whatever the limit, connections and idle files
// together stay below it, with room for what the broker itself has open.
func TestConnectionsLeaveDescriptorsToLogs(t *testing.T) {
	for _, limit := range []uint64{64, 100, 256, 1024, 4096, 20_000, 1 << 20} {
		d := shareDescriptors(limit)
		own := min(ownDescriptors, int(limit)/4)
		if d.connections < 1 || d.idleFiles < 1 || d.files < d.idleFiles || d.connections+2*d.files+own > int(limit) {
			t.Errorf("limit %d: %+v, own %d", limit, d, own)
		}
	}
	if d := shareDescriptors(20_000); d.connections < 10_000 {
		t.Errorf("20,000 descriptors serve %d connections, want 10,000", d.connections)
	}
	if d := shareDescriptors(0); d != (descriptors{}) {
		t.Errorf("no limit: %+v", d)
	}
}

func TestMaxConnectionsWithinDescriptors(t *testing.T) {
	for _, tt := range []struct{ has, configured, want int }{
		{0, 0, 0}, {0, 7, 7}, {100, 0, 100}, {100, 7, 7}, {100, 1000, 100},
	} {
		if got := (descriptors{connections: tt.has}).bound(tt.configured); got != tt.want {
			t.Errorf("%d descriptors, max.connections %d: %d, want %d", tt.has, tt.configured, got, tt.want)
		}
	}
}
