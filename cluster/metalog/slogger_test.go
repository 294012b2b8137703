package metalog

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

// Raft's lines come one level lower than Raft means them, with their pairs, and its debug
// lines not at all.
func TestRaftLogger(t *testing.T) {
	var out strings.Builder
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	l := newRaftLogger(slog.New(handler))
	for range 3 { // said once, of each peer
		l.Error("no answer", "peer", 2)
		l.Error("no answer", "peer", 3)
		l.Warn("late", "by", "1s")
	}
	l.Info("servers", "list", hclog.Fmt("%+v", []int{1}))
	l.Debug("chatter")
	l.Trace("chatter")
	l.Named("net").With("a", 1).Warn("pooled", "b", 2)
	want := `level=WARN msg=raft part=raft message="no answer" peer=2
level=WARN msg=raft part=raft message="no answer" peer=3
level=INFO msg=raft part=raft message=late by=1s
level=DEBUG msg=raft part=raft message=servers list=[1]
level=INFO msg=raft part=raft.net message=pooled a=1 b=2
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if !l.IsInfo() || !l.IsWarn() || !l.IsError() || l.IsDebug() || l.IsTrace() {
		t.Error("levels that are on")
	}
	quiet := newRaftLogger(slog.New(slog.NewTextHandler(&out, nil)))
	if quiet.IsInfo() || !quiet.IsWarn() {
		t.Error("levels that are on at slog's default level")
	}
}
