package chaos

import (
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
		"order":                  {func(_ *history, s served) { s[place{0, 0}], s[place{0, 1}] = s[place{0, 1}], s[place{0, 0}] }, "out of order"},
		"skipped by the group":   {func(h *history, s served) { h.told("acked 3 0 2"); s[place{0, 2}] = "p-3" }, "unread"},
		"read and gone":          {func(h *history, _ served) { h.saw(place{0, 7}, "p-9") }, "gone"},
		"read and changed":       {func(h *history, _ served) { h.saw(place{0, 1}, "p-5") }, "changed"},
		"somebody else's record": {func(h *history, _ served) { h.saw(place{0, 1}, "q-1") }, "strange"},
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
