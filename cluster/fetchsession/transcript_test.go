package fetchsession

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestTranscripts plays fetchers against a cache. Sessions are named S1, S2 … in the
// order in which they are opened, topics by one letter (with ids, the id is that letter).
//
//	cache [slots=N] [partitions=N]         a new cache
//	tick 3m                                time passes
//	fetch [NAME] s=ID/EPOCH [v=V] [follower] [p=(a-0@OFFSET,…)] [forget=(a-0,…)]
//	answer [NAME]                          input: "a-0 hw=9 start=0 bytes=5 error" per line
//	throttled [NAME]
//	order S1                               the partitions of a session
//	sessions
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		p := &player{now: time.Unix(1_000_000, 0), contexts: map[string]*Context{}, ids: map[string]int32{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return p.play(t, d)
		})
	})
}

type player struct {
	now      time.Time
	cache    *Cache
	contexts map[string]*Context
	ids      map[string]int32 // by the name of the session
}

func (p *player) play(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "cache":
		o := Options{Rand: rand.New(rand.NewPCG(1, 2))}
		d.MaybeScanArgs(t, "slots", &o.Slots)
		d.MaybeScanArgs(t, "partitions", &o.MaxPartitions)
		p.cache, p.ids = NewCache(o), map[string]int32{}
		return ""
	case "tick":
		step, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		p.now = p.now.Add(step)
		return ""
	case "fetch":
		return p.fetch(t, d)
	case "answer":
		return p.answer(t, d)
	case "throttled":
		return p.outcome(p.contexts[name(d)].Throttled())
	case "order":
		return want(p.cache.sessions[p.ids[d.CmdArgs[0].Key]].parts.appendTo(nil, nil))
	case "sessions":
		return p.state()
	}
	t.Fatalf("unknown command %s", d.Cmd)
	return ""
}

// name is the leading argument without value, "" if there is none.
func name(d *datadriven.TestData) string {
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 && d.CmdArgs[0].Key != "follower" {
		return d.CmdArgs[0].Key
	}
	return ""
}

func (p *player) fetch(t *testing.T, d *datadriven.TestData) string {
	r := Request{Version: 13, Follower: d.HasArg("follower")}
	d.MaybeScanArgs(t, "v", &r.Version)
	var s string
	d.ScanArgs(t, "s", &s)
	id, epoch, _ := strings.Cut(s, "/")
	r.SessionID, r.Epoch = p.id(t, id), int32(number(t, epoch))
	if arg, ok := d.Arg("p"); ok {
		for _, v := range arg.Vals {
			part, offset, _ := strings.Cut(v, "@")
			r.Partitions = append(r.Partitions, Partition{Key: key(t, part, r.Version), HighWatermark: unknown, FetchOffset: number(t, offset)})
		}
	}
	if arg, ok := d.Arg("forget"); ok {
		for _, v := range arg.Vals {
			r.Forgotten = append(r.Forgotten, key(t, v, r.Version))
		}
	}
	c := p.cache.NewContext(p.now, r)
	p.contexts[name(d)] = c
	if c.Err() != nil {
		return errName(c.Err()) + "\n"
	}
	kinds := map[kind]string{sessionless: "sessionless", full: "full", incremental: "incremental"}
	return kinds[c.kind] + ": " + want(c.Partitions(nil, nil))
}

func (p *player) answer(t *testing.T, d *datadriven.TestData) string {
	c := p.contexts[name(d)]
	version := c.request.Version
	var answers []Answer
	var names []string
	for line := range strings.Lines(d.Input) {
		fields := strings.Fields(line)
		a := Answer{Key: key(t, fields[0], version)}
		for _, f := range fields[1:] {
			set(t, &a, f)
		}
		answers, names = append(answers, a), append(names, fields[0])
	}
	foreseen := slices.Clone(answers)
	c.Filter(foreseen)
	out := p.outcome(c.UpdateAndFilter(p.now, answers))
	if !slices.Equal(foreseen, answers) {
		t.Errorf("%s: filtered were %+v, then included %+v", d.Pos, foreseen, answers)
	}
	included := "nothing"
	var in []string
	for i := range answers {
		if answers[i].Include {
			in = append(in, names[i])
		}
	}
	if len(in) > 0 {
		included = strings.Join(in, " ")
	}
	return out + "included: " + included + "\n"
}

func set(t *testing.T, a *Answer, field string) {
	k, v, _ := strings.Cut(field, "=")
	switch k {
	case "hw":
		a.HighWatermark = number(t, v)
	case "start":
		a.LogStartOffset = number(t, v)
	case "bytes":
		a.RecordsBytes = int(number(t, v))
	case "error":
		a.Failed, a.HighWatermark, a.LogStartOffset = true, -1, -1
	case "diverging":
		a.Diverging = true
	case "redirected":
		a.Redirected = true
	default:
		t.Fatalf("field %q", field)
	}
}

func (p *player) outcome(id int32, err error) string {
	session := "none"
	for name, known := range p.ids {
		if known == id {
			session = name
		}
	}
	if id != 0 && session == "none" {
		session = fmt.Sprintf("S%d", len(p.ids)+1)
		p.ids[session] = id
	}
	if err != nil {
		return fmt.Sprintf("session %s, %s\n", session, errName(err))
	}
	return fmt.Sprintf("session %s\n", session)
}

func (p *player) state() string {
	var names []string
	for i := 1; i <= len(p.ids); i++ {
		n := fmt.Sprintf("S%d", i)
		if s := p.cache.sessions[p.ids[n]]; s != nil {
			names = append(names, fmt.Sprintf("%s (%d, epoch %d)", n, s.cachedSize, s.epoch))
		}
	}
	return fmt.Sprintf("%d sessions, %d partitions: %s\n", p.cache.Sessions(), p.cache.Partitions(), strings.Join(names, ", "))
}

func (p *player) id(t *testing.T, s string) int32 {
	if id, ok := p.ids[s]; ok {
		return id
	}
	return int32(number(t, s))
}

func number(t *testing.T, s string) int64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// key of "a-0".
func key(t *testing.T, s string, version int16) Key {
	topic, index, _ := strings.Cut(s, "-")
	k := Key{Partition: int32(number(t, index))}
	if version < firstVersionWithIDs {
		k.Topic = topic
		return k
	}
	k.TopicID = uuid.UUID{0: topic[0]}
	return k
}

func want(ps []Partition) string {
	var out []string
	for _, p := range ps {
		topic := p.Topic
		if topic == "" {
			topic = string(p.TopicID[0])
		}
		out = append(out, fmt.Sprintf("%s-%d@%d", topic, p.Partition, p.FetchOffset))
	}
	return strings.Join(out, " ") + "\n"
}

func errName(err error) string {
	return map[int16]string{
		kafkaerr.FetchSessionIDNotFound.Code:   "FETCH_SESSION_ID_NOT_FOUND",
		kafkaerr.InvalidFetchSessionEpoch.Code: "INVALID_FETCH_SESSION_EPOCH",
		kafkaerr.FetchSessionTopicIDError.Code: "FETCH_SESSION_TOPIC_ID_ERROR",
	}[kafkaerr.Code(err)]
}
