package replica

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/logstore"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

// TestPartitionTranscripts plays a Partition of broker 1 on a log without bytes. Brokers
// 1 to 5 are registered with epochs 101 to 105.
//
//	partition [durability=replicated] [min-isr=N] [end=N] [flushed=N] [hw=N]
//	leader epoch=N [pe=N] replicas=(…) isr=(…) [unclean]   metadata makes it leader, or follower:
//	follower of=N epoch=N [pe=N]
//	append NAME n=RECORDS [acks=-1]                 reached NAME
//	flush to=N                                      a group commit has ended
//	fetched ID at=N [broker-epoch=N] [log-start=N]  a follower fetched
//	altered ok=(ISR)|err=NAME [pe=N]                the controller answers the proposal
//	read [replica=N] at=N [epoch=N] [last-epoch=N] [max=N] [min-one] [committed] [any]
//	     [rack=RACK racks=(OF-1,OF-2,…)]            a consumer in a rack; "-" is no rack
//	list ts=N [v=N] [replica=N] [committed] [epoch=N]
//	epoch-end N [current=N]
//	config [durability=…] [min-isr=N]
//	broker ID epoch=N | tick DURATION | retire ERROR | state
func TestPartitionTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/partition", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			return s.play()
		})
	})
}

// script is one transcript being played.
type script struct {
	t *testing.T
	d *datadriven.TestData

	now     time.Time
	log     *fakeLog
	brokers fakeBrokers
	p       *Partition
	awaited map[string]Awaited
	change  *ISRChange
	pe      int32
}

func (s *script) play() string {
	commands := map[string]func() string{
		"partition": s.partition, "leader": s.leader, "follower": s.follower, "append": s.append,
		"reached": s.reached, "flush": s.flush, "fetched": s.fetched, "altered": s.altered,
		"read": s.read, "list": s.list, "epoch-end": s.epochEnd, "config": s.config,
		"broker": s.broker, "tick": s.tick, "retire": s.retire, "state": s.state,
	}
	command := commands[s.d.Cmd]
	if command == nil {
		s.t.Fatalf("unknown command %q", s.d.Cmd)
	}
	return command()
}

func (s *script) num(arg string, def int64) int64 {
	s.d.MaybeScanArgs(s.t, arg, &def)
	return def
}

func (s *script) ids(arg string) (ids []int32) {
	a, _ := s.d.Arg(arg)
	for _, v := range a.Vals {
		id, err := strconv.Atoi(v)
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, int32(id))
	}
	return ids
}

// first is the first argument, as a number where wanted.
func (s *script) first() string { return s.d.CmdArgs[0].Key }

func (s *script) firstNum() int32 {
	n, err := strconv.Atoi(s.first())
	if err != nil {
		s.t.Fatal(err)
	}
	return int32(n)
}

func (s *script) topicConfig() TopicConfig {
	c := TopicConfig{Log: logstore.DefaultConfig(), MinInSyncCount: int(s.num("min-isr", 1))}
	if a, ok := s.d.Arg("durability"); ok && a.Vals[0] == "replicated" {
		c.Log.Durability = logstore.DurabilityReplicated
	}
	return c
}

func (s *script) partition() string {
	end := s.num("end", 0)
	s.log = &fakeLog{config: s.topicConfig().Log, end: end, flushed: s.num("flushed", end), hw: s.num("hw", 0), lso: -1}
	if end > 0 {
		s.log.batches = []fakeBatch{{0, end - 1, 0}}
		s.log.epochs = []fakeEpoch{{0, 0}}
	}
	s.brokers = fakeBrokers{1: 101, 2: 102, 3: 103, 4: 104, 5: 105}
	s.now, s.awaited, s.change, s.pe = time.Unix(1000, 0), map[string]Awaited{}, nil, 0
	s.p = NewPartition(PartitionOptions{
		ID: TopicIDPartition{TopicID: uuid.UUID{1}}, Topic: "t", BrokerID: 1, Log: s.log,
		Config: s.topicConfig(), Brokers: s.brokers, ReplicaLagMax: 30 * time.Second,
	})
	return s.state()
}

func (s *script) leader() string {
	e, err := s.p.BecomeLeader(s.now, s.metadata(1))
	return s.effects(e, err)
}

func (s *script) follower() string {
	return s.effects(s.p.BecomeFollower(s.metadata(int32(s.num("of", -1)))), nil)
}

func (s *script) metadata(leader int32) *metadata.Partition {
	s.pe = int32(s.num("pe", int64(s.pe)+1))
	p := &metadata.Partition{
		Replicas: s.ids("replicas"), ISR: s.ids("isr"), Leader: leader,
		LeaderEpoch: int32(s.num("epoch", 0)), PartitionEpoch: s.pe,
	}
	if s.d.HasArg("unclean") {
		p.RecoveryState = metadata.Recovering
	}
	return p
}

func (s *script) append() string {
	if a, ok := s.d.Arg("err"); ok {
		s.log.next = kind(a.Vals[0])
	}
	r, awaited, e := s.p.AppendAsLeader(s.now, LeaderAppend{
		Records: make([]byte, s.num("n", 1)), Acks: int16(s.num("acks", -1)),
	})
	s.awaited[s.first()] = awaited
	if r.Err != nil {
		return fmt.Sprintf("%s, base %d, log start %d, leader %d epoch %d\n", name(r.Err), r.BaseOffset, r.LogStartOffset, r.CurrentLeader.ID, r.CurrentLeader.Epoch)
	}
	waits := map[awaitedFor]string{nothing: "nothing", ownFlush: "own flush", allReplicas: "all replicas"}
	return fmt.Sprintf("base %d, awaits %s to %d\n", r.BaseOffset, waits[awaited.what], awaited.end) + s.effects(e, nil)
}

func (s *script) reached() string {
	done, err := s.p.Reached(s.awaited[s.first()])
	return fmt.Sprintf("%v %s\n", done, name(err))
}

func (s *script) flush() string {
	s.log.flushed = s.num("to", s.log.end)
	return s.effects(s.p.FlushDone(s.now), nil)
}

func (s *script) fetched() string {
	id := s.firstNum()
	e, err := s.p.FollowerFetched(s.now, FollowerFetch{
		ReplicaID: id, LeaderEpoch: NoEpoch, Offset: s.num("at", 0), BrokerEpoch: s.num("broker-epoch", int64(id)+100),
		LogStart: s.num("log-start", 0), LeaderEnd: s.log.end, NoRoom: s.d.HasArg("no-room"),
	})
	return s.effects(e, err)
}

func (s *script) altered() string {
	r := ISRResult{LeaderEpoch: s.p.leader.Epoch, PartitionEpoch: s.pe + 1, ISR: s.ids("ok")}
	if a, ok := s.d.Arg("err"); ok {
		r.Err = kind(a.Vals[0])
	} else {
		s.pe++
	}
	e, retry := s.p.AlterPartitionDone(s.now, s.change, r)
	return fmt.Sprintf("retry %v\n", retry) + s.effects(e, nil)
}

func (s *script) read() string {
	r := &Reader{ReplicaID: int32(s.num("replica", -1)), BrokerEpoch: -1, AnyReplica: s.d.HasArg("any")}
	if s.d.HasArg("committed") {
		r.Isolation = ReadCommitted
	}
	s.d.MaybeScanArgs(s.t, "rack", &r.Rack)
	if a, ok := s.d.Arg("racks"); ok {
		r.Racks = func(id int32) string { return strings.Trim(a.Vals[id-1], "-") }
	}
	want := &FetchPartition{
		FetchOffset: s.num("at", 0), CurrentLeaderEpoch: int32(s.num("epoch", -1)),
		LastFetchedEpoch: int32(s.num("last-epoch", -1)), LogStartOffset: -1,
	}
	f, e := s.p.ReadRecords(s.now, r, want, int(s.num("max", 1000)), s.d.HasArg("min-one"))
	return fetchResult(&f) + s.effects(e, nil)
}

func fetchResult(f *FetchResult) string {
	if f.Err != nil {
		return fmt.Sprintf("%s, hw %d lso %d start %d, leader %d epoch %d\n", name(f.Err),
			f.HighWatermark, f.LastStableOffset, f.LogStartOffset, f.CurrentLeader.ID, f.CurrentLeader.Epoch)
	}
	out := "nothing"
	if f.Records != nil {
		out = fmt.Sprint(f.Records)
	}
	if f.PreferredReplica != nil {
		out = fmt.Sprintf("read from %d", *f.PreferredReplica)
	}
	if f.Diverging != nil {
		out = fmt.Sprintf("diverging: epoch %d ends at %d", f.Diverging.Epoch, f.Diverging.EndOffset)
	}
	if f.AbortedTransactions != nil {
		out += fmt.Sprintf(", aborted %v", f.AbortedTransactions)
	}
	return fmt.Sprintf("%s, hw %d lso %d start %d\n", out, f.HighWatermark, f.LastStableOffset, f.LogStartOffset)
}

func (s *script) list() string {
	req := &ListOffsetsRequest{Version: int16(s.num("v", 11)), ReplicaID: int32(s.num("replica", -1))}
	if s.d.HasArg("committed") {
		req.Isolation = ReadCommitted
	}
	r := s.p.ListOffsets(req, &ListOffsetsPartition{Timestamp: s.num("ts", 0), CurrentLeaderEpoch: int32(s.num("epoch", -1))})
	if r.Err != nil {
		return fmt.Sprintf("%s, offset %d\n", name(r.Err), r.Offset)
	}
	return fmt.Sprintf("offset %d, timestamp %d, epoch %d\n", r.Offset, r.TimestampMs, r.LeaderEpoch)
}

func (s *script) epochEnd() string {
	r, err := s.p.OffsetForLeaderEpoch(int32(s.num("current", -1)), s.firstNum())
	if err != nil {
		return name(err) + "\n"
	}
	return fmt.Sprintf("epoch %d ends at %d\n", r.Epoch, r.EndOffset)
}

func (s *script) config() string {
	return s.effects(s.p.UpdateConfig(s.now, s.topicConfig()), nil)
}

func (s *script) broker() string {
	s.brokers[s.firstNum()] = s.num("epoch", -1)
	return ""
}

func (s *script) tick() string {
	step, err := time.ParseDuration(s.first())
	if err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(step)
	return s.effects(s.p.Tick(s.now), nil)
}

func (s *script) retire() string {
	return s.effects(s.p.Retire(kind(s.first())), nil)
}

// effects prints what the driver is to do, and how far the partition is now.
func (s *script) effects(e Effects, err error) string {
	if err != nil {
		return name(err) + "\n"
	}
	var out []string
	for what, wanted := range map[string]bool{"flush": e.FlushWanted, "wake": e.Wake, "wake-fetchers": e.WakeFetcher} {
		if wanted {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	if c := e.AlterPartition; c != nil {
		s.change = c
		out = append(out, fmt.Sprintf("propose ISR %v on epoch %d", c.ISR, c.PartitionEpoch))
	}
	if len(out) == 0 {
		out = []string{"nothing to do"}
	}
	return fmt.Sprintf("hw %d: %s\n", s.p.HighWatermark(), strings.Join(out, ", "))
}

func (s *script) state() string {
	role := "follower"
	if s.p.isLeader {
		role = "leader"
	}
	if s.p.gone != nil {
		role = "gone: " + name(s.p.gone)
	}
	return fmt.Sprintf("%s, leader %d epoch %d, start %d hw %d flushed %d end %d, isr %v of min %d\n", role,
		s.p.leader.ID, s.p.leader.Epoch, s.log.logStart, s.p.HighWatermark(), s.log.flushed, s.log.end, s.p.isr.committed, s.p.effectiveMinISR())
}

var kinds = []*kafkaerr.Kind{
	kafkaerr.NotLeaderOrFollower, kafkaerr.NotEnoughReplicas, kafkaerr.NotEnoughReplicasAfterAppend,
	kafkaerr.UnknownTopicOrPartition, kafkaerr.KafkaStorageError, kafkaerr.FencedLeaderEpoch,
	kafkaerr.UnknownLeaderEpoch, kafkaerr.OffsetOutOfRange, kafkaerr.OffsetNotAvailable,
	kafkaerr.LeaderNotAvailable, kafkaerr.UnsupportedVersion, kafkaerr.IneligibleReplica,
	kafkaerr.InvalidUpdateVersion, kafkaerr.MessageTooLarge, kafkaerr.OutOfOrderSequenceNumber,
	kafkaerr.RequestTimedOut, kafkaerr.InvalidRequiredAcks, kafkaerr.InconsistentTopicID, kafkaerr.CorruptMessage,
	kafkaerr.InvalidRecord, kafkaerr.InvalidRequest, kafkaerr.UnknownTopicID, kafkaerr.InvalidProducerEpoch,
	kafkaerr.InvalidTopic, kafkaerr.LogDirNotFound, kafkaerr.ReplicaNotAvailable,
}

// kind finds an error by Kafka's name.
func kind(name string) error {
	for _, k := range kinds {
		if k.Message == name {
			return k
		}
	}
	return fmt.Errorf("no kind named %q", name)
}

func name(err error) string {
	if err == nil {
		return "NONE"
	}
	for _, k := range kinds {
		if k.Code == kafkaerr.Code(err) {
			return k.Message
		}
	}
	return err.Error()
}
