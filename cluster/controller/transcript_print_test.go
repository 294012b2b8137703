package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/protocol/uuid"
)

func (w *world) describe() {
	for b := range w.image.Brokers() {
		state := "unfenced"
		switch {
		case b.Fenced:
			state = "fenced"
		case b.InControlledShutdown:
			state = "shutting down"
		}
		w.printf("broker %d epoch=%d %s dirs=%s\n", b.ID, b.Epoch, state, names(b.LogDirs))
	}
	for t := range w.image.Topics() {
		for _, p := range t.Partitions {
			w.printf("%s\n", describePartition(t.Name, p))
		}
	}
}

func describePartition(topic string, p *metadata.Partition) string {
	s := fmt.Sprintf("%s:%d leader=%d@%d replicas=%v isr=%v", topic, p.Index, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR)
	if len(p.ELR) > 0 {
		s += fmt.Sprintf(" elr=%v", p.ELR)
	}
	if len(p.LastKnownELR) > 0 {
		s += fmt.Sprintf(" last-known=%v", p.LastKnownELR)
	}
	if p.RecoveryState == metadata.Recovering {
		s += " recovering"
	}
	return s + fmt.Sprintf(" epoch=%d", p.PartitionEpoch)
}

// record prints a record with names in place of ids.
func (w *world) record(r metadata.Record) string {
	name := metadata.Name(r)
	switch r := r.(type) {
	case metadata.RegisterBrokerRecord:
		return fmt.Sprintf("%s %d epoch=%d incarnation=%s dirs=%s fenced=%v", name, r.ID, r.Epoch, text(r.IncarnationID), names(r.LogDirs), r.Fenced)
	case metadata.BrokerChangeRecord:
		s := fmt.Sprintf("%s %d epoch=%d", name, r.ID, r.Epoch)
		if r.Fenced != nil {
			s += fmt.Sprintf(" fenced=%v", *r.Fenced)
		}
		if r.InControlledShutdown != nil {
			s += fmt.Sprintf(" shutting-down=%v", *r.InControlledShutdown)
		}
		if r.LogDirs != nil {
			s += " dirs=" + names(r.LogDirs)
		}
		return s
	case metadata.BumpLeaderEpochsRecord:
		return fmt.Sprintf("%s %d", name, r.BrokerID)
	case metadata.TopicRecord:
		return fmt.Sprintf("%s %s", name, r.Name)
	case metadata.RemoveTopicRecord:
		return fmt.Sprintf("%s %s", name, w.image.TopicByID(r.ID).Name)
	case metadata.ConfigRecord:
		return fmt.Sprintf("%s %s %s=%s", name, r.Name, r.Key, *r.Value)
	case metadata.PartitionRecord:
		return fmt.Sprintf("%s %d replicas=%v dirs=%s isr=%v leader=%d", name, r.Index, r.Replicas, names(r.Directories), r.ISR, r.Leader)
	case metadata.PartitionChangeRecord:
		return name + w.change(r)
	case metadata.ProducerIDsRecord:
		return fmt.Sprintf("%s broker=%d next=%d", name, r.BrokerID, r.Next)
	default:
		return name
	}
}

func (w *world) change(r metadata.PartitionChangeRecord) string {
	s := fmt.Sprintf(" %s:%d", w.image.TopicByID(r.TopicID).Name, r.Index)
	if r.Leader != nil {
		s += fmt.Sprintf(" leader=%d", *r.Leader)
	}
	for _, l := range []struct {
		name string
		ids  []int32
	}{{"isr", r.ISR}, {"elr", r.ELR}, {"last-known", r.LastKnownELR}} {
		if l.ids != nil {
			s += fmt.Sprintf(" %s=%v", l.name, l.ids)
		}
	}
	s += assignmentChange(&r)
	if r.RecoveryState != nil {
		s += fmt.Sprintf(" recovery=%d", *r.RecoveryState)
	}
	return s
}

// response prints an answer, encoded and decoded again: what a version lacks is not shown.
func (w *world) response(resp kmsg.Response) string {
	again := resp.RequestKind().ResponseKind()
	if err := again.ReadFrom(resp.AppendTo(nil)); err != nil {
		return fmt.Sprintf("answer cannot be decoded: %v\n", err)
	}
	var b strings.Builder
	switch r := again.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			fmt.Fprintf(&b, "-> %s %s%s", quoted(t.Topic), code(t.ErrorCode), message(t.ErrorMessage))
			if t.ErrorCode == 0 {
				fmt.Fprintf(&b, " partitions=%d rf=%d id=%v%s", t.NumPartitions, t.ReplicationFactor, t.TopicID != [16]byte{}, shownConfigs(t))
			}
			b.WriteString("\n")
		}
	case *kmsg.DeleteTopicsResponse:
		var lines []string
		for _, t := range r.Topics {
			name := "null"
			if t.Topic != nil {
				name = quoted(*t.Topic)
			}
			lines = append(lines, fmt.Sprintf("-> %s id=%v %s%s\n", name, t.TopicID != [16]byte{}, code(t.ErrorCode), message(t.ErrorMessage)))
		}
		slices.Sort(lines) // the order is random
		b.WriteString(strings.Join(lines, ""))
	case *kmsg.BrokerRegistrationResponse:
		fmt.Fprintf(&b, "-> %s epoch=%d%s\n", code(r.ErrorCode), r.BrokerEpoch, reason(r))
	case *kmsg.BrokerHeartbeatResponse:
		fmt.Fprintf(&b, "-> %s caught-up=%v fenced=%v stop=%v\n", code(r.ErrorCode), r.IsCaughtUp, r.IsFenced, r.ShouldShutdown)
	case *kmsg.AllocateProducerIDsResponse:
		fmt.Fprintf(&b, "-> %s ids %d+%d\n", code(r.ErrorCode), r.ProducerIDStart, r.ProducerIDLen)
	case *kmsg.AlterPartitionResponse:
		if r.ErrorCode != 0 {
			fmt.Fprintf(&b, "-> %s\n", code(r.ErrorCode))
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				fmt.Fprintf(&b, "-> %d %s leader=%d@%d isr=%v epoch=%d\n", p.Partition, code(p.ErrorCode), p.LeaderID, p.LeaderEpoch, p.ISR, p.PartitionEpoch)
			}
		}
	case *kmsg.AssignReplicasToDirsResponse:
		if r.ErrorCode != 0 {
			fmt.Fprintf(&b, "-> %s\n", code(r.ErrorCode))
		}
		for _, d := range r.Directories {
			for _, t := range d.Topics {
				fmt.Fprintf(&b, "-> %s %d %s\n", text(d.ID), t.Partitions[0].Partition, code(t.Partitions[0].ErrorCode))
			}
		}
	default:
		partitionsResponse(&b, again)
	}
	return b.String()
}

func shownConfigs(t kmsg.CreateTopicsResponseTopic) string {
	var b strings.Builder
	for _, c := range t.Configs {
		if c.Source == 1 {
			fmt.Fprintf(&b, " %s=%s", c.Name, *c.Value)
		}
	}
	if t.ConfigErrorCode != 0 {
		fmt.Fprintf(&b, " configs:%s", code(t.ConfigErrorCode))
	}
	return fmt.Sprintf(" configs=%d%s", len(t.Configs), b.String())
}

func reason(r *kmsg.BrokerRegistrationResponse) string {
	if text := RefusalReason(r); text != "" {
		return fmt.Sprintf(" %q", text)
	}
	return ""
}

func code(c int16) string {
	if c == 0 {
		return "NONE"
	}
	return kerr.TypedErrorForCode(c).Message
}

func message(m *string) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(" %q", *m)
}

func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \n") {
		return strconv.Quote(s)
	}
	return s
}

// named makes an id of a short name, text the name of such an id.
func named(name string) uuid.UUID {
	if name == "unassigned" {
		return uuid.DirUnassigned
	}
	var id uuid.UUID
	copy(id[:], name)
	return id
}

func text(id uuid.UUID) string {
	if id == uuid.DirUnassigned {
		return "unassigned"
	}
	return strings.TrimRight(string(id[:]), "\x00")
}

func names(ids []uuid.UUID) string {
	var s []string
	for _, id := range ids {
		s = append(s, text(id))
	}
	return strings.Join(s, ",")
}
