package chaos

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckFindsFaults(t *testing.T) {
	good := func() (*history, served) {
		h := newHistory("p", true)
		h.told("acked 0 0 0")
		h.told("acked 1 0 1")
		h.told("failed 2 timeout")
		h.saw(place{0, 0}, "p-0")
		h.saw(place{0, 1}, "p-1")
		return h, served{{0, 0}: "p-0", {0, 1}: "p-1"}
	}
	for name, c := range map[string]struct {
		change func(h *history, s served)
		want   string // "" is none
	}{
		"nothing":                       {func(*history, served) {}, ""},
		"given up, and there":           {func(_ *history, s served) { s[place{0, 2}] = "p-2" }, ""},
		"acknowledged, not served":      {func(_ *history, s served) { delete(s, place{0, 1}) }, "lost"},
		"acknowledged at a wrong place": {func(h *history, _ served) { h.told("acked 1 0 0") }, "lost"},
		"twice":                         {func(_ *history, s served) { s[place{0, 2}] = "p-1" }, "duplicate"},
		"twice, not idempotent": {func(h *history, s served) {
			h.idempotent = false
			s[place{0, 2}] = "p-1"
		}, ""},
		"order":                    {func(_ *history, s served) { s[place{0, 0}], s[place{0, 1}] = s[place{0, 1}], s[place{0, 0}] }, "out of order"},
		"skipped by the group":     {func(h *history, s served) { h.told("acked 3 0 2"); s[place{0, 2}] = "p-3" }, "unread"},
		"read and gone":            {func(h *history, _ served) { h.saw(place{0, 7}, "p-9") }, "gone"},
		"read and changed":         {func(h *history, _ served) { h.saw(place{0, 1}, "p-5") }, "changed"},
		"given up, and there late": {func(_ *history, s served) { s[place{0, 2}], s[place{0, 3}] = "p-4", "p-2" }, "out of order"},
		"given up, and there late, not idempotent": {func(h *history, s served) {
			h.idempotent = false
			s[place{0, 2}], s[place{0, 3}] = "p-4", "p-2"
		}, ""},
		"followed": {func(h *history, _ served) {
			f := h.newFollower("f")
			f.saw(place{0, 0}, "p-0")
			f.saw(place{0, 1}, "p-1")
		}, ""},
		"follower skips": {func(h *history, _ served) { h.newFollower("f").saw(place{0, 1}, "p-1") }, "skipped"},
		"follower steps back": {func(h *history, _ served) {
			f := h.newFollower("f")
			f.saw(place{0, 0}, "p-0")
			f.saw(place{0, 0}, "p-0")
		}, "stepped back"},
		"follower and group disagree": {func(h *history, _ served) { h.newFollower("f").saw(place{0, 0}, "p-1") }, "changed"},
		"follower reads what is gone": {func(h *history, _ served) {
			f := h.newFollower("f")
			f.next[0] = 5
			f.saw(place{0, 5}, "p-5")
		}, "gone"},
		"follower is refused":       {func(h *history, _ served) { h.newFollower("f").failed(errors.New("OFFSET_OUT_OF_RANGE")) }, "refused"},
		"a record that was refused": {func(_ *history, s served) { s[place{0, 2}] = "refused" }, "strange"},
		"somebody else's record":    {func(h *history, _ served) { h.saw(place{0, 1}, "q-1") }, "strange"},
	} {
		t.Run(name, func(t *testing.T) {
			h, s := good()
			c.change(h, s)
			found := strings.Join(h.check(s, map[int32]int64{0: int64(len(s))}), "\n")
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

func TestUnread(t *testing.T) {
	h := newHistory("p", true)
	h.told("acked 0 0 0")
	h.told("acked 1 1 0")
	h.saw(place{0, 0}, "p-0")
	h.saw(place{0, 0}, "p-0")
	if h.unread() != 1 || h.again != 1 {
		t.Errorf("%d unread, %d again, want 1 and 1", h.unread(), h.again)
	}
}
