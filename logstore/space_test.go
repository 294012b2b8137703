package logstore

import (
	"testing"

	"github.com/klamm-mq/klamm/logstore/segment"
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

// However many logs ask the disk for blocks ahead, and however late it is looked at again,
// that alone neither fills a directory nor takes metadata's room.
func TestBlocksAheadLeaveRoom(t *testing.T) {
	for _, avail := range []uint64{16 << 20, 90 << 20, 300 << 20, 2 << 30} {
		s := newSpace(0, vfs.Space{TotalBytes: 6 << 30, AvailBytes: avail})
		left := int64(avail)
		for range 10_000 {
			n := s.reservable()
			left -= n
			s.unseen.Add(n)
		}
		if least := min(int64(avail), int64(s.reserve)); left < least {
			t.Errorf("of %d MiB %d are left, want %d", avail>>20, left>>20, least>>20)
		}
		if avail > 200<<20 && left > int64(s.reserve+s.extra)+segment.ReserveBytes {
			t.Errorf("of %d MiB %d are left: fewer could be", avail>>20, left>>20)
		}
	}
}
