package handlers

import (
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/cluster/metadata"
	"github.com/klamm-mq/klamm/configs"
	"github.com/klamm-mq/klamm/protocol"
	"github.com/klamm-mq/klamm/protocol/kafkaerr"
	"github.com/klamm-mq/klamm/protocol/wire"
)

// fakeLoggers are two loggers.
type fakeLoggers map[string]string

func (f fakeLoggers) Levels() map[string]string { return maps.Clone(f) }
func (f fakeLoggers) Set(name, level string)    { f[name] = level }
func (f fakeLoggers) Unset(name string)         { f[name] = f[rootLogger] }

// withConfigs gives the handlers a configuration, loggers and what metadata sets.
func withConfigs(t *testing.T, records ...metadata.Record) (*fixture, fakeLoggers) {
	f := newFixture(t)
	loggers := fakeLoggers{rootLogger: "INFO", "klamm.wire": "DEBUG"}
	image := changed(t, testImage(t), records...)
	f.h.image = func() *metadata.Image { return image }
	f.h.configs, f.h.loggers = configs.Default, loggers
	return f, loggers
}

func describeRequest(version int16, resources ...configResource) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = version
	for _, r := range resources {
		res := kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = r.kind, r.name
		req.Resources = append(req.Resources, res)
	}
	return req
}

const (
	topicKind  = kmsg.ConfigResourceTypeTopic
	brokerKind = kmsg.ConfigResourceTypeBroker
	loggerKind = kmsg.ConfigResourceTypeBrokerLogger
)

func TestDescribeConfigsOfResources(t *testing.T) {
	f, _ := withConfigs(t,
		metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.TopicResource, Name: "t"}, Key: "retention.ms", Value: new("5")},
		metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.ClientMetricsResource, Name: "m"}, Key: "interval.ms", Value: new("500")})
	for _, c := range []struct {
		resource configResource
		want     int16
		key      string
		value    string
		source   configs.Source
	}{
		{configResource{topicKind, "t"}, 0, "retention.ms", "5", configs.SourceTopic},
		{configResource{topicKind, "nope"}, kafkaerr.UnknownTopicOrPartition.Code, "", "", 0},
		{configResource{topicKind, "a b"}, kafkaerr.InvalidTopic.Code, "", "", 0},
		{configResource{brokerKind, "1"}, 0, "num.partitions", "1", configs.SourceDefault},
		{configResource{brokerKind, "+01"}, 0, "num.partitions", "1", configs.SourceDefault},
		{configResource{brokerKind, "2"}, kafkaerr.InvalidRequest.Code, "", "", 0},
		{configResource{brokerKind, "x"}, kafkaerr.InvalidRequest.Code, "", "", 0},
		{configResource{loggerKind, "1"}, 0, "klamm.wire", "DEBUG", configs.SourceLogger},
		{configResource{loggerKind, ""}, kafkaerr.InvalidRequest.Code, "", "", 0},
		{configResource{clientMetricsResource, "m"}, 0, "interval.ms", "500", configs.SourceClientMetrics},
		{configResource{clientMetricsResource, ""}, kafkaerr.InvalidRequest.Code, "", "", 0},
		{configResource{groupResource, "g"}, 0, "share.isolation.level", "read_uncommitted", configs.SourceDefault},
		{configResource{groupResource, ""}, kafkaerr.InvalidRequest.Code, "", "", 0},
	} {
		for version := int16(1); version <= 4; version++ {
			resp := ask[*kmsg.DescribeConfigsResponse](t, f, describeRequest(version, c.resource))
			r := resp.Resources[0]
			if r.ErrorCode != c.want || r.ResourceName != c.resource.name || r.ResourceType != c.resource.kind {
				t.Errorf("%v v%d: %+v", c.resource, version, r)
				continue
			}
			i := slices.IndexFunc(r.Configs, func(k kmsg.DescribeConfigsResponseResourceConfig) bool { return k.Name == c.key })
			if c.want == 0 && (i < 0 || *r.Configs[i].Value != c.value || r.Configs[i].Source != kmsg.ConfigSource(c.source) || len(r.Configs[i].ConfigSynonyms) > 0) {
				t.Errorf("%v v%d: %s is not %s", c.resource, version, c.key, c.value)
			}
		}
	}
}

// One resource of a type that has no configuration makes the whole request invalid.
func TestDescribeConfigsOfAnUnknownType(t *testing.T) {
	f, _ := withConfigs(t)
	resp := ask[*kmsg.DescribeConfigsResponse](t, f, describeRequest(4, configResource{topicKind, "t"}, configResource{3, "x"}))
	for _, r := range resp.Resources {
		if r.ErrorCode != kafkaerr.InvalidRequest.Code || len(r.Configs) > 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestDescribeConfigsGivesWhatIsAskedFor(t *testing.T) {
	f, _ := withConfigs(t)
	req := describeRequest(4, configResource{topicKind, "t"})
	req.Resources[0].ConfigNames = []string{"flush.ms", "no.such"}
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	got := ask[*kmsg.DescribeConfigsResponse](t, f, req).Resources[0].Configs
	if len(got) != 1 || got[0].Name != "flush.ms" || got[0].Documentation == nil || got[0].ConfigType != kmsg.ConfigTypeLong {
		t.Fatalf("%+v", got)
	}
}

func incrementalRequest(kind kmsg.ConfigResourceType, name string, settings ...setting) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for _, s := range settings {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = s.name, s.op, s.value
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	return req
}

// What a broker can refuse by itself never comes to the controller.
func TestIncrementalAlterConfigsRefusedHere(t *testing.T) {
	const set, remove, appendTo = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend
	f, loggers := withConfigs(t)
	for _, c := range []struct {
		name string
		req  *kmsg.IncrementalAlterConfigsRequest
		want *kafkaerr.Kind
	}{
		{"key twice", incrementalRequest(topicKind, "t", setting{"a", set, new("1")}, setting{"a", remove, nil}), kafkaerr.InvalidRequest},
		{"no value", incrementalRequest(topicKind, "t", setting{"a", set, nil}), kafkaerr.InvalidRequest},
		{"other broker", incrementalRequest(brokerKind, "2", setting{"max.connections", set, new("1")}), kafkaerr.InvalidRequest},
		{"read-only", incrementalRequest(brokerKind, "1", setting{"node.id", set, new("1")}), kafkaerr.InvalidRequest},
		{"no list", incrementalRequest(brokerKind, "1", setting{"max.connections", appendTo, new("1")}), kafkaerr.InvalidConfig},
		{"unknown operation", incrementalRequest(brokerKind, "1", setting{"max.connections", 7, new("1")}), kafkaerr.InvalidRequest},
		{"negative operation", incrementalRequest(brokerKind, "1", setting{"max.connections", -1, new("1")}), kafkaerr.InvalidRequest},
		{"other type", incrementalRequest(3, "1"), kafkaerr.InvalidRequest},
		{"unknown logger", incrementalRequest(loggerKind, "1", setting{"x", set, new("INFO")}), kafkaerr.InvalidConfig},
		{"unknown level", incrementalRequest(loggerKind, "1", setting{"klamm.wire", set, new("LOUD")}), kafkaerr.InvalidConfig},
		{"no level for the root", incrementalRequest(loggerKind, "1", setting{rootLogger, remove, nil}), kafkaerr.InvalidRequest},
		{"levels are no list", incrementalRequest(loggerKind, "1", setting{rootLogger, appendTo, new("INFO")}), kafkaerr.InvalidRequest},
		{"a good and a bad one", incrementalRequest(loggerKind, "1", setting{"klamm.wire", set, new("ERROR")}, setting{"x", set, new("INFO")}), kafkaerr.InvalidConfig},
	} {
		resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, f, c.req)
		if r := resp.Resources[0]; r.ErrorCode != c.want.Code || r.ErrorMessage == nil {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	if len(f.node.calls) > 0 || loggers["klamm.wire"] != "DEBUG" {
		t.Errorf("something was forwarded, or a level was changed: %v", loggers)
	}
}

// A controller takes changes of any broker, since that may be down, but no key that none has,
// and loggers are its own.
func TestControllersTakeSettingsOfAnyBroker(t *testing.T) {
	const set = kmsg.IncrementalAlterConfigOpSet
	f, _ := withConfigs(t)
	f.h.quorum = func() Quorum { return Quorum{LeaderHere: true} }
	f.node.err = kafkaerr.BrokerIDNotRegistered // so that what is forwarded is told from the others
	for _, c := range []struct {
		name string
		req  *kmsg.IncrementalAlterConfigsRequest
		want *kafkaerr.Kind
	}{
		{"its own", incrementalRequest(brokerKind, "1", setting{"max.connections", set, new("1")}), kafkaerr.BrokerIDNotRegistered},
		{"another", incrementalRequest(brokerKind, "2", setting{"max.connections", set, new("1")}), kafkaerr.BrokerIDNotRegistered},
		{"another, read-only", incrementalRequest(brokerKind, "2", setting{"node.id", set, new("1")}), kafkaerr.InvalidRequest},
		{"another, no number", incrementalRequest(brokerKind, "2", setting{"max.connections", set, new("many")}), kafkaerr.InvalidRequest},
		{"loggers of another", incrementalRequest(loggerKind, "2", setting{"klamm.wire", set, new("INFO")}), kafkaerr.InvalidRequest},
	} {
		r := f.request(c.req)
		r.Conn.Listener = wire.ListenerInfo{Name: "CONTROLLER", Kind: protocol.ControllerListener}
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		resp.Version = c.req.Version
		decode(t, f.h.Handle(t.Context(), r).Response, resp)
		if got := resp.Resources[0].ErrorCode; got != c.want.Code {
			t.Errorf("%s: error %d, want %d", c.name, got, c.want.Code)
		}
	}
}

// AlterConfigs knows no loggers, not even where it would change nothing.
func TestAlterConfigsKnowsNoLoggers(t *testing.T) {
	f, _ := withConfigs(t)
	req := kmsg.NewPtrAlterConfigsRequest()
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = loggerKind, "1"
	req.Resources = append(req.Resources, res)
	if r := ask[*kmsg.AlterConfigsResponse](t, f, req).Resources[0]; r.ErrorCode != kafkaerr.InvalidRequest.Code || r.ErrorMessage == nil {
		t.Errorf("%+v", r)
	}
}

func TestLevelsAreChangedUnlessOnlyValidated(t *testing.T) {
	f, loggers := withConfigs(t)
	req := incrementalRequest(loggerKind, "1", setting{"klamm.wire", kmsg.IncrementalAlterConfigOpSet, new("ERROR")})
	for _, only := range []bool{true, false} {
		req.ValidateOnly = only
		if r := ask[*kmsg.IncrementalAlterConfigsResponse](t, f, req).Resources[0]; r.ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
		if changed := loggers["klamm.wire"] == "ERROR"; changed == only {
			t.Errorf("only validated %t, changed %t", only, changed)
		}
	}
}

// A resource that is named twice is refused in both places, and the others go on.
func TestResourcesNamedTwice(t *testing.T) {
	f, _ := withConfigs(t)
	req := incrementalRequest(topicKind, "t")
	req.Resources = append(req.Resources, incrementalRequest(topicKind, "u").Resources[0], req.Resources[0])
	f.node.err = kafkaerr.NotController // so that what is forwarded is told from the others
	resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, f, req)
	forwarded := (<-f.node.calls).(*kmsg.IncrementalAlterConfigsRequest)
	if len(forwarded.Resources) != 1 || forwarded.Resources[0].ResourceName != "u" {
		t.Errorf("forwarded %+v", forwarded.Resources)
	}
	for i, want := range []int16{kafkaerr.InvalidRequest.Code, kafkaerr.NotController.Code, kafkaerr.InvalidRequest.Code} {
		if got := resp.Resources[i].ErrorCode; got != want {
			t.Errorf("resource %d: %d, want %d", i, got, want)
		}
	}
	legacy := kmsg.NewPtrAlterConfigsRequest()
	for range 2 {
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = topicKind, "t"
		legacy.Resources = append(legacy.Resources, res)
	}
	for _, r := range ask[*kmsg.AlterConfigsResponse](t, f, legacy).Resources {
		if r.ErrorCode != kafkaerr.InvalidRequest.Code {
			t.Errorf("AlterConfigs: %+v", r)
		}
	}
}

func TestListConfigResources(t *testing.T) {
	f, _ := withConfigs(t,
		metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.GroupResource, Name: "g"}, Key: "consumer.session.timeout.ms", Value: new("50000")},
		metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.ClientMetricsResource, Name: "m"}, Key: "interval.ms", Value: new("500")},
		metadata.ConfigRecord{Resource: metadata.Resource{Type: metadata.BrokerResource}, Key: "max.connections", Value: new("500")})
	for _, c := range []struct {
		version int16
		kinds   []int8
		code    int16
		want    []string
	}{
		{0, nil, 0, []string{"m"}},
		{1, nil, 0, []string{"1", "1", "g", "m", "t"}},
		{1, []int8{2}, 0, []string{"t"}},
		{1, []int8{32, 16}, 0, []string{"g", "m"}},
		{1, []int8{4}, 0, []string{"1"}},
		{1, []int8{8}, 0, []string{"1"}},
		{1, []int8{2, 3}, kafkaerr.UnsupportedVersion.Code, nil},
	} {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = c.version, c.kinds
		resp := ask[*kmsg.ListConfigResourcesResponse](t, f, req)
		var names []string
		for _, r := range resp.ConfigResources {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		if resp.ErrorCode != c.code || !slices.Equal(names, c.want) {
			t.Errorf("v%d %v: %d %v", c.version, c.kinds, resp.ErrorCode, names)
		}
	}
}
