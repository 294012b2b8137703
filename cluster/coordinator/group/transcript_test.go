package group

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// TestTranscripts tells stories of groups. Commands, one per line; what is answered, and
// what is written, follows each:
//
//	config KEY=VALUE …            before the first use of the shard
//	join NAME [v=9] [instance=I] [session=60s] [rebalance=60s] [protocols=range:a,b] [id=ID]
//	sync NAME [assign=a:x,b:y] [generation=N] [v=5]
//	heartbeat, leave, commit, fetch, delete-offsets, describe, list, delete-groups
//	tick 45s                      time goes by
//	hold, release                 the high watermark stands still; moves again
//	refuse ERROR                  the next append is refused
//	time-out                      waits for the high watermark end without it
//	crash, unload                 the shard is loaded again; is given up
//
// A name is a client's. What it learns of its id and generation it uses in its next
// request. Ids are shown as <name>, <name.2> for the second id of that client.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		tr := newTranscript(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			tr.out.Reset()
			for _, line := range append([]string{strings.Join(commandLine(d), " ")}, strings.Split(d.Input, "\n")...) {
				if line = strings.TrimSpace(line); line != "" {
					tr.run(line)
				}
			}
			return tr.names(tr.out.String())
		})
	})
}

func commandLine(d *datadriven.TestData) []string {
	if d.Cmd == "run" {
		return nil
	}
	args := []string{d.Cmd}
	for _, a := range d.CmdArgs {
		args = append(args, a.String())
	}
	return args
}

type transcript struct {
	*fixture
	out     strings.Builder
	clients map[string]*client
	aliases []string // id, name, id, name …
}

// client is what a client knows.
type client struct {
	name       string
	id         string
	ids        int
	generation int32
}

func newTranscript(t *testing.T) *transcript {
	tr := &transcript{fixture: newFixture(t, 1), clients: make(map[string]*client)}
	tr.onRecord = tr.showRecord
	return tr
}

func (tr *transcript) printf(format string, args ...any) {
	fmt.Fprintf(&tr.out, format+"\n", args...)
}

// names replaces ids by names.
func (tr *transcript) names(s string) string {
	return strings.NewReplacer(tr.aliases...).Replace(s)
}

func (tr *transcript) client(name string) *client {
	c := tr.clients[name]
	if c == nil {
		c = &client{name: name, generation: noGeneration}
		tr.clients[name] = c
	}
	return c
}

func (tr *transcript) learn(c *client, id string) {
	if id == "" || id == c.id {
		return
	}
	c.id = id
	if slices.Contains(tr.aliases, id) {
		return
	}
	c.ids++
	alias := "<" + c.name + ">"
	if c.ids > 1 {
		alias = fmt.Sprintf("<%s.%d>", c.name, c.ids)
	}
	tr.aliases = append(tr.aliases, id, alias)
}

// args are the words of a command: the first ones, and KEY=VALUE.
type args struct {
	words  []string
	values map[string]string
}

func parseArgs(line string) args {
	a := args{values: make(map[string]string)}
	for _, w := range strings.Fields(line) {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.values[k] = v
		} else {
			a.words = append(a.words, w)
		}
	}
	return a
}

func (a args) has(key string) bool { _, ok := a.values[key]; return ok }

func (a args) text(key, otherwise string) string {
	if v, ok := a.values[key]; ok {
		return v
	}
	return otherwise
}

func (a args) pointer(key string) *string {
	if v, ok := a.values[key]; ok {
		return &v
	}
	return nil
}

func (a args) number(key string, otherwise int) int {
	n, err := strconv.Atoi(a.text(key, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

func (a args) ms(key, otherwise string) int32 {
	return int32(parseDuration(a.text(key, otherwise)).Milliseconds())
}

func parseDuration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func (a args) list(key, otherwise string) []string {
	v := a.text(key, otherwise)
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

func (a args) group() string { return a.text("group", "g") }

func (tr *transcript) context(a args, version int) Context {
	return Context{Version: int16(a.number("v", version)), ClientID: a.word(1), ClientHost: "/127.0.0.1"}
}

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (tr *transcript) run(line string) {
	a := parseArgs(line)
	commands := map[string]func(args){
		"config": tr.cmdConfig, "join": tr.cmdJoin, "sync": tr.cmdSync, "heartbeat": tr.cmdHeartbeat, "leave": tr.cmdLeave,
		"commit": tr.cmdCommit, "fetch": tr.cmdFetch, "delete-offsets": tr.cmdDeleteOffsets,
		"describe": tr.cmdDescribe, "list": tr.cmdList, "delete-groups": tr.cmdDeleteGroups,
		"tick": func(a args) { tr.pass(parseDuration(a.word(1))) },
		"hold": func(args) { tr.hold = true }, "release": tr.cmdRelease, "time-out": func(args) { tr.timeOut() },
		"refuse": tr.cmdRefuse, "crash": func(a args) { tr.crash(a.number("keep", 1<<30)) },
		"unload": func(args) { tr.shard.Unload(kafkaerr.NotCoordinator) },
	}
	run, ok := commands[a.words[0]]
	if !ok {
		tr.t.Fatalf("unknown command %q", a.words[0])
	}
	tr.printf("> %s", line)
	start := tr.out.Len()
	run(a)
	if tr.out.Len() == start && slices.Contains([]string{"join", "sync", "commit", "heartbeat", "leave"}, a.words[0]) {
		tr.printf("  (waits)")
	}
}

func (tr *transcript) cmdConfig(a args) {
	for k, v := range a.values {
		switch k {
		case "max-size":
			tr.config.MaxSize = a.number(k, 0)
		case "initial-delay":
			tr.config.InitialRebalanceDelay = parseDuration(v)
		case "retention":
			tr.config.OffsetsRetention = parseDuration(v)
		case "metadata-max":
			tr.config.OffsetMetadataMaxBytes = a.number(k, 0)
		default:
			tr.t.Fatalf("unknown configuration %q", k)
		}
	}
	tr.load()
}

func (tr *transcript) cmdRelease(args) {
	tr.hold = false
	tr.advance(int64(len(tr.log)))
}

func (tr *transcript) cmdRefuse(a args) {
	for _, kind := range []*kafkaerr.Kind{kafkaerr.NotEnoughReplicas, kafkaerr.MessageTooLarge, kafkaerr.KafkaStorageError} {
		if kind.Message == a.word(1) {
			tr.refuse = kind
			return
		}
	}
	tr.t.Fatalf("unknown error %q", a.word(1))
}

// errorName is Kafka's name of an error code.
func errorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if kind, ok := errors.AsType[*kerr.Error](kerr.ErrorForCode(code)); ok {
		return kind.Message
	}
	return strconv.Itoa(int(code))
}

func (tr *transcript) cmdJoin(a args) {
	c := tr.client(a.word(1))
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.InstanceID = a.group(), a.pointer("instance")
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = a.ms("session", "60s"), a.ms("rebalance", "60s")
	req.ProtocolType = a.text("type", "consumer")
	req.MemberID = a.text("id", c.id)
	for _, p := range a.list("protocols", "range:t") {
		name, topics, _ := strings.Cut(p, ":")
		rp := kmsg.NewJoinGroupRequestProtocol()
		rp.Name, rp.Metadata = name, subscription(strings.Split(topics, "+"))
		if req.ProtocolType != consumerProtocolType {
			rp.Metadata = []byte(topics)
		}
		req.Protocols = append(req.Protocols, rp)
	}
	tr.carryOut(tr.shard.JoinGroup(tr.now, tr.context(a, 9), req, func(resp *kmsg.JoinGroupResponse) {
		tr.learn(c, resp.MemberID)
		switch resp.ErrorCode {
		case 0:
			c.generation = resp.Generation
		case kafkaerr.UnknownMemberID.Code:
			c.id, c.generation = "", noGeneration
		}
		tr.printf("  %s: %s", c.name, showJoin(resp))
	}))
}

func subscription(topics []string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

func showJoin(resp *kmsg.JoinGroupResponse) string {
	s := fmt.Sprintf("JoinGroup %s member=%s", errorName(resp.ErrorCode), resp.MemberID)
	if resp.Generation == noGeneration && resp.LeaderID == "" {
		return s
	}
	s += fmt.Sprintf(" generation=%d protocol=%s leader=%s", resp.Generation, deref(resp.Protocol), resp.LeaderID)
	if len(resp.Members) > 0 {
		var ids []string
		for _, m := range resp.Members {
			ids = append(ids, m.MemberID)
		}
		s += " members=" + strings.Join(ids, ",")
	}
	if resp.SkipAssignment {
		s += " skip-assignment"
	}
	return s
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func (tr *transcript) cmdSync(a args) {
	c := tr.client(a.word(1))
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID = a.group(), a.text("id", c.id), a.pointer("instance")
	req.Generation = int32(a.number("generation", int(c.generation)))
	req.ProtocolType, req.Protocol = a.pointer("type"), a.pointer("protocol")
	for _, p := range a.list("assign", "") {
		name, assignment, _ := strings.Cut(p, ":")
		ra := kmsg.NewSyncGroupRequestGroupAssignment()
		ra.MemberID, ra.MemberAssignment = tr.client(name).id, []byte(assignment)
		req.GroupAssignment = append(req.GroupAssignment, ra)
	}
	tr.carryOut(tr.shard.SyncGroup(tr.now, tr.context(a, 5), req, func(resp *kmsg.SyncGroupResponse) {
		tr.printf("  %s: SyncGroup %s %q protocol=%s", c.name, errorName(resp.ErrorCode), resp.MemberAssignment, deref(resp.Protocol))
	}))
}

func (tr *transcript) cmdHeartbeat(a args) {
	c := tr.client(a.word(1))
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID = a.group(), a.text("id", c.id), a.pointer("instance")
	req.Generation = int32(a.number("generation", int(c.generation)))
	tr.carryOut(tr.shard.Heartbeat(tr.now, tr.context(a, 4), req, func(resp *kmsg.HeartbeatResponse) {
		tr.printf("  %s: Heartbeat %s", c.name, errorName(resp.ErrorCode))
	}))
}

func (tr *transcript) cmdLeave(a args) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = a.group()
	for _, name := range a.words[1:] {
		m := kmsg.NewLeaveGroupRequestMember()
		if instance, ok := strings.CutPrefix(name, "instance:"); ok {
			m.InstanceID = &instance
		} else {
			m.MemberID, m.InstanceID = tr.client(name).id, a.pointer("instance")
		}
		req.Members, req.MemberID = append(req.Members, m), m.MemberID
	}
	tr.carryOut(tr.shard.LeaveGroup(tr.now, tr.context(a, 5), req, func(resp *kmsg.LeaveGroupResponse) {
		s := "  LeaveGroup " + errorName(resp.ErrorCode)
		for _, m := range resp.Members {
			s += fmt.Sprintf(" %s%s=%s", m.MemberID, strings.ReplaceAll("/"+deref(m.InstanceID), "/null", ""), errorName(m.ErrorCode))
		}
		tr.printf("%s", s)
	}))
}
