package logstore

import (
	"testing"

	"github.com/klamm-mq/klamm/logstore/vfs"
)

// metadataRoom is what the metadata log asks for before it accepts a change
// (metalog.DefaultReserve and what it adds before it is content again).
const metadataRoom = 18 << 20

// Whatever the size of the disk, records stop before they take metadata's room, also when
// a check comes as late as it can.
func TestRecordsLeaveRoomForMetadata(t *testing.T) {
	for _, c := range []struct {
		total   uint64
		reserve uint64
	}{
		{128 << 20, 32 << 20},
		{256 << 20, 32 << 20},
		{512 << 20, 512 << 20 / 10},
		{1 << 30, 64 << 20},
		{10 << 30, 10 << 30 / 100},
		{1 << 40, 1 << 30},
	} {
		s := newSpace(0, vfs.Space{TotalBytes: c.total, AvailBytes: c.total})
		if s.reserve != c.reserve {
			t.Errorf("of %d MiB: reserve %d, want %d", c.total>>20, s.reserve, c.reserve)
		}
		if left := int64(s.reserve) - s.checkEvery; left < metadataRoom {
			t.Errorf("of %d MiB: %d bytes are left when a check comes late, metadata wants %d", c.total>>20, left, metadataRoom)
		}
	}
}
