package handlers

import (
	"context"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/controller"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// maxAutoCreating bounds the topics that are being made for clients at one time; the
// names beyond it are left to the client's next Metadata request.
const maxAutoCreating = 1000

// autoCreator makes topics that clients named in Metadata requests. Like Kafka it
// answers before they exist, and works on each name at most once at a time.
type autoCreator struct {
	create func(ctx context.Context, who requester, names []string) error
	logger *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu       sync.Mutex
	inFlight map[string]struct{}
	closed   bool
}

// requester is whose quotas count for a topic; the zero value: nobody's.
type requester struct {
	clientID string
	metered  bool
}

func newAutoCreator(create func(context.Context, requester, []string) error, logger *slog.Logger) *autoCreator {
	ctx, cancel := context.WithCancel(context.Background())
	return &autoCreator{create: create, logger: logger, ctx: ctx, cancel: cancel, inFlight: make(map[string]struct{})}
}

// request begins to make those of the names that are not being made yet.
func (a *autoCreator) request(who requester, names []string) {
	claimed := a.claim(names)
	if len(claimed) == 0 {
		return
	}
	go func() {
		defer a.wait.Done()
		defer a.release(claimed)
		if err := a.create(a.ctx, who, claimed); err != nil && a.ctx.Err() == nil {
			a.logger.Warn("automatic topic creation failed", "topics", claimed, "err", err)
		}
	}()
}

func (a *autoCreator) claim(names []string) (claimed []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		if _, busy := a.inFlight[name]; busy || a.closed || len(a.inFlight) >= maxAutoCreating {
			continue
		}
		a.inFlight[name] = struct{}{}
		claimed = append(claimed, name)
	}
	if len(claimed) > 0 {
		a.wait.Add(1)
	}
	return claimed
}

func (a *autoCreator) release(names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		delete(a.inFlight, name)
	}
}

func (a *autoCreator) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.wait.Wait()
}

// CreateInternalTopic begins to make a topic of the coordinators, unless that is under
// way. It happens whatever auto.create.topics.enable says.
func (h *Handlers) CreateInternalTopic(name string) {
	h.autoCreate.request(requester{}, []string{name})
}

// createForClient asks the controller for topics with the defaults of auto-creation.
func (h *Handlers) createForClient(ctx context.Context, who requester, names []string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = int32(h.config.RequestTimeout.Milliseconds())
	for _, name := range names {
		req.Topics = append(req.Topics, h.autoTopic(name))
	}
	resp, _, err := h.node.Call(ctx, controller.Call{
		Request: req, Principal: call{}.principal(), ClientID: who.clientID, Metered: who.metered,
	})
	if err != nil {
		return err
	}
	for _, topic := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if topic.ErrorCode != 0 && topic.ErrorCode != kafkaerr.TopicAlreadyExists.Code {
			h.logger.Warn("automatic topic creation refused", "topic", topic.Topic, "code", topic.ErrorCode, "reason", deref(topic.ErrorMessage))
		}
	}
	return nil
}

func (h *Handlers) autoTopic(name string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = name
	topic.NumPartitions, topic.ReplicationFactor = h.config.NumPartitions, h.config.DefaultReplicationFactor
	internal, ok := h.config.InternalTopics[name]
	if !ok {
		return topic
	}
	topic.NumPartitions, topic.ReplicationFactor = internal.Partitions, internal.ReplicationFactor
	for key, value := range internal.Configs {
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = key, &value
		topic.Configs = append(topic.Configs, setting)
	}
	return topic
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
