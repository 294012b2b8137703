package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/IBM/sarama"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

// member reads so many records, and no more.
type member struct {
	out  programs.Out
	left atomic.Int64
	done context.CancelFunc
}

func (*member) Setup(sarama.ConsumerGroupSession) error { return nil }

func (*member) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	return nil
}

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case r, open := <-claim.Messages():
			if !open {
				return nil
			}
			left := m.left.Add(-1)
			if left < 0 {
				return nil
			}
			if err := show(r, m.out); err != nil {
				return err
			}
			s.MarkMessage(r, "")
			if left == 0 {
				m.done()
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

func group(ctx context.Context, bootstrap string, c programs.Command, out programs.Out) error {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	g, err := sarama.NewConsumerGroup([]string{bootstrap}, c.Group, config)
	if err != nil {
		return err
	}
	enough, done := context.WithCancel(ctx)
	defer done()
	m := &member{out: out, done: done}
	m.left.Store(int64(c.Count))
	for enough.Err() == nil {
		if err := g.Consume(enough, []string{c.Topic}, m); err != nil && enough.Err() == nil {
			return errors.Join(err, g.Close())
		}
	}
	return errors.Join(ctx.Err(), g.Close())
}
