package handlers

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
)

// Types of resources that kmsg has no name for, or another.
const (
	clientMetricsResource = kmsg.ConfigResourceType(metadata.ClientMetricsResource)
	groupResource         = kmsg.ConfigResourceType(metadata.GroupResource)
)

// Loggers are the named loggers of this broker, whose levels can be changed (KIP-412).
type Loggers interface {
	// Levels gives the level of each logger, in Kafka's words.
	Levels() map[string]string
	// Set gives a logger a level of its own; level is one of configs.LogLevels.
	Set(name, level string)
	// Unset gives it the root's again.
	Unset(name string)
}

// rootLogger is the logger that the others take their level from.
const rootLogger = "root"

// metadataResource is where metadata has the configuration of a resource.
func metadataResource(kind kmsg.ConfigResourceType, name string) metadata.Resource {
	return metadata.Resource{Type: metadata.ResourceType(kind), Name: name}
}

// checkOwnName refuses the name of a resource that only another broker knows.
func (h *Handlers) checkOwnName(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("a broker is named by its number, not %q", name))
	}
	if int32(id) != h.nodeID {
		return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("this is broker %d, ask broker %s itself", h.nodeID, name))
	}
	return nil
}

// configResource names a resource in a request.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alteredResource is what a request that alters configuration asks of one resource.
type alteredResource struct {
	configResource
	settings []setting
	whole    bool // the settings are all that it shall have
	any      bool // of brokers: it need not be this one
}

// configAnswer is the answer for one resource.
type configAnswer struct {
	code    int16
	message *string
}

func configAnswerOf(err error) configAnswer {
	return configAnswer{kafkaerr.Code(err), kafkaerr.Message(err)}
}

// checkAlterations answers what this broker knows the answer of, and gives the places of
// the resources that are left to the controller.
func (h *Handlers) checkAlterations(list []alteredResource, validateOnly bool) (answers []configAnswer, left []int) {
	times := map[configResource]int{}
	for _, r := range list {
		times[r.configResource]++
	}
	answers = make([]configAnswer, len(list))
	for i, r := range list {
		var done bool
		var err error
		if times[r.configResource] > 1 {
			err = kafkaerr.New(kafkaerr.InvalidRequest, "the request names this resource more than once")
		} else {
			done, err = h.checkAlteration(r, validateOnly)
		}
		answers[i] = configAnswerOf(err)
		if err == nil && !done {
			left = append(left, i)
		}
	}
	return answers, left
}

// alterResources is the part that the two requests that alter configuration share: this
// broker answers what it can, and the controller is asked about the rest. pick gives the
// request with only the resources in these places, and read what the controller has said
// of one of them.
func (h *Handlers) alterResources(ctx context.Context, c call, list []alteredResource, validateOnly bool,
	pick func(left []int) kmsg.Request, read func(decided kmsg.Response, at int) configAnswer,
) []configAnswer {
	for i := range list {
		list[i].any = c.request.Conn.Listener.Kind == protocol.ControllerListener
	}
	answers, left := h.checkAlterations(list, validateOnly)
	if len(left) == 0 {
		return answers
	}
	decided, err := h.forward(ctx, c, pick(left))
	for at, i := range left {
		if err != nil {
			answers[i] = configAnswerOf(err)
			continue
		}
		answers[i] = read(decided, at)
	}
	return answers
}

// placesOf gives the elements of a list in some places.
func placesOf[T any](list []T, places []int) []T {
	picked := make([]T, len(places))
	for at, i := range places {
		picked[at] = list[i]
	}
	return picked
}

// setting is one key of a request that alters configuration.
type setting struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// checkAlteration looks at one resource of a request as far as this broker can
// (ConfigAdminManager.preprocess). done says that nothing is left to the controller.
func (h *Handlers) checkAlteration(r alteredResource, validateOnly bool) (done bool, err error) {
	seen := make(map[string]bool, len(r.settings))
	for _, s := range r.settings {
		if seen[s.name] {
			return true, kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("the request names %s more than once", s.name))
		}
		seen[s.name] = true
	}
	for _, s := range r.settings {
		if s.value == nil && s.op != kmsg.IncrementalAlterConfigOpDelete {
			return true, kafkaerr.New(kafkaerr.InvalidRequest, s.name+" is given no value")
		}
	}
	switch {
	case r.kind == kmsg.ConfigResourceTypeTopic, r.kind == clientMetricsResource, r.kind == groupResource:
		return false, nil
	case r.kind == kmsg.ConfigResourceTypeBroker:
		return false, h.checkBrokerSettings(r)
	case r.kind == kmsg.ConfigResourceTypeBrokerLogger && !r.whole:
		return true, h.changeLoggers(r.name, r.settings, validateOnly)
	default:
		return true, kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("resource type %d has no configuration to be altered so", r.kind))
	}
}

// checkBrokerSettings looks at settings of all brokers, or of this one. A controller takes those
// of any, be it down, of which it knows the keys alone.
func (h *Handlers) checkBrokerSettings(r alteredResource) error {
	if r.name != "" && !r.any {
		if err := h.checkOwnName(r.name); err != nil {
			return err
		}
	}
	var set map[string]string
	if !r.whole {
		set = h.image().Config(metadataResource(kmsg.ConfigResourceTypeBroker, r.name))
	}
	changes := make(map[string]*string, len(r.settings))
	for _, s := range r.settings {
		switch s.op {
		case kmsg.IncrementalAlterConfigOpSet:
			changes[s.name] = s.value
		case kmsg.IncrementalAlterConfigOpDelete:
			changes[s.name] = nil
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			text, err := changedList(set, s)
			if err != nil {
				return err
			}
			changes[s.name] = &text
		default:
			return kafkaerr.New(kafkaerr.InvalidRequest, fmt.Sprintf("there is no operation %d", s.op))
		}
	}
	if r.name != "" && h.checkOwnName(r.name) != nil {
		return configs.CheckDynamicKeys(changes)
	}
	return h.configs().CheckDynamic(set, changes, r.name != "")
}

func changedList(set map[string]string, s setting) (string, error) {
	key := configs.BrokerKey(s.name)
	if key == nil || key.Type != configs.List {
		return "", kafkaerr.New(kafkaerr.InvalidConfig, s.name+" is no list")
	}
	var old *string
	if text, ok := set[s.name]; ok {
		old = &text
	}
	return key.ChangeList(old, *s.value, s.op == kmsg.IncrementalAlterConfigOpAppend), nil
}

// changeLoggers checks all settings before it takes the first (RuntimeLoggerManager).
func (h *Handlers) changeLoggers(name string, settings []setting, validateOnly bool) error {
	if err := h.checkOwnName(name); err != nil {
		return err
	}
	levels := h.loggers.Levels()
	for _, s := range settings {
		if err := checkLogger(levels, s); err != nil {
			return err
		}
	}
	if validateOnly {
		return nil
	}
	for _, s := range settings {
		if s.op == kmsg.IncrementalAlterConfigOpSet {
			h.loggers.Set(s.name, *s.value)
		} else {
			h.loggers.Unset(s.name)
		}
		h.logger.Warn("the level of a logger was changed", "logger", s.name)
	}
	return nil
}

func checkLogger(levels map[string]string, s setting) error {
	_, exists := levels[s.name]
	switch {
	case s.op != kmsg.IncrementalAlterConfigOpSet && s.op != kmsg.IncrementalAlterConfigOpDelete:
		return kafkaerr.New(kafkaerr.InvalidRequest, "the level of a logger can be set or deleted, nothing else")
	case !exists:
		return kafkaerr.New(kafkaerr.InvalidConfig, "there is no logger "+s.name)
	case s.op == kmsg.IncrementalAlterConfigOpDelete && s.name == rootLogger:
		return kafkaerr.New(kafkaerr.InvalidRequest, "the root logger must have a level")
	case s.op == kmsg.IncrementalAlterConfigOpSet && !configs.IsLogLevel(*s.value):
		return kafkaerr.New(kafkaerr.InvalidConfig, fmt.Sprintf("%s is no level of a logger", *s.value))
	}
	return nil
}
