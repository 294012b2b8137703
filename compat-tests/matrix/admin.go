package matrix

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/klamm-mq/klamm/compat-tests/matrix/programs"
)

const (
	managed = "managed" // the topic that is created, changed and deleted

	configKey         = "retention.ms"
	configAtFirst     = "86400000"
	configAfterwards  = "172800000"
	partitionsAtFirst = 2
	partitionsLater   = 5
	deletedBelow      = 10 // of the corpus' first partition
)

// administering comes after consuming: its group is described and deleted.
func administering() []capability {
	return []capability{
		{"create a topic", (*run).createTopic},
		{"list topics", (*run).listTopics},
		{"describe a topic", (*run).describeTopic},
		{"describe configs", (*run).describeConfigs},
		{"alter configs", (*run).alterConfigs},
		{"add partitions", (*run).addPartitions},
		{"delete records", (*run).deleteRecords},
		{"list groups", (*run).listGroups},
		{"describe a group", (*run).describeGroup},
		{"offsets of a group", (*run).groupOffsets},
		{"delete a group", (*run).deleteGroup},
		{"delete a topic", (*run).deleteTopic},
	}
}

// result decodes the answer to a question.
func result[T any](r *run, c programs.Command) (v T) {
	r.t.Helper()
	for _, l := range r.do(c) {
		if l.Result != nil {
			if err := json.Unmarshal(l.Result, &v); err != nil {
				r.t.Fatalf("%s: %v", l.Result, err)
			}
			return v
		}
	}
	r.t.Fatal("no result")
	return v
}

// manage creates the topic for a client that cannot.
func (r *run) manage() {
	r.t.Helper()
	topics, err := r.admin.ListTopics(r.context())
	if err != nil {
		r.t.Fatal(err)
	}
	if topics.Has(managed) {
		return
	}
	if _, err := r.admin.CreateTopic(r.context(), partitionsAtFirst, 1, map[string]*string{configKey: text(configAtFirst)}, managed); err != nil {
		r.t.Fatal(err)
	}
	r.awaitPartitions(partitionsAtFirst)
}

// awaitPartitions waits until the broker says that the topic has so many.
func (r *run) awaitPartitions(want int) {
	r.t.Helper()
	r.await("the topic has its partitions", func() (bool, error) {
		topics, err := r.admin.ListTopics(r.context(), managed)
		if err != nil {
			return false, err
		}
		n := len(topics[managed].Partitions)
		return n == want, fmt.Errorf("it has %d", n)
	})
}

// awaitConfig waits until the broker says that the topic's configuration is so.
func (r *run) awaitConfig(want string) {
	r.t.Helper()
	r.await("the topic has its configuration", func() (bool, error) {
		answers, err := r.admin.DescribeTopicConfigs(r.context(), managed)
		if err != nil {
			return false, err
		}
		at := slices.IndexFunc(answers[0].Configs, func(c kadm.Config) bool { return c.Key == configKey })
		if at < 0 {
			return false, answers[0].Err
		}
		got := answers[0].Configs[at].MaybeValue()
		return got == want, fmt.Errorf("%s is %s", configKey, got)
	})
}

func (r *run) createTopic() {
	r.do(programs.Command{Do: "create-topic", Topic: managed, Partitions: partitionsAtFirst, Configs: map[string]string{configKey: configAtFirst}})
	r.awaitPartitions(partitionsAtFirst)
	r.awaitConfig(configAtFirst)
}

func (r *run) listTopics() {
	r.manage()
	names := result[[]string](r, programs.Command{Do: "list-topics"})
	for _, want := range []string{corpus, managed} {
		if !slices.Contains(names, want) {
			r.t.Errorf("%s is not among %q", want, names)
		}
	}
}

func (r *run) describeTopic() {
	r.manage()
	if n := result[int](r, programs.Command{Do: "describe-topic", Topic: managed}); n != partitionsAtFirst {
		r.t.Errorf("%d partitions", n)
	}
}

func (r *run) describeConfigs() {
	r.manage()
	configs := result[map[string]string](r, programs.Command{Do: "describe-configs", Topic: managed})
	if configs[configKey] != configAtFirst || configs["cleanup.policy"] != "delete" {
		r.t.Errorf("%v", configs)
	}
}

func (r *run) alterConfigs() {
	r.manage()
	r.do(programs.Command{Do: "alter-configs", Topic: managed, Configs: map[string]string{configKey: configAfterwards}})
	r.awaitConfig(configAfterwards)
}

func (r *run) addPartitions() {
	r.manage()
	r.do(programs.Command{Do: "create-partitions", Topic: managed, Partitions: partitionsLater})
	r.awaitPartitions(partitionsLater)
}

func (r *run) deleteRecords() {
	r.do(programs.Command{Do: "delete-records", Topic: corpus, Offset: deletedBelow})
	starts, err := r.admin.ListStartOffsets(r.context(), corpus)
	if err != nil {
		r.t.Fatal(err)
	}
	if o, _ := starts.Lookup(corpus, 0); o.Offset != deletedBelow {
		r.t.Errorf("partition 0 starts at %d", o.Offset)
	}
}

func (r *run) listGroups() {
	if names := result[[]string](r, programs.Command{Do: "list-groups"}); !slices.Contains(names, readers) {
		r.t.Errorf("%q", names)
	}
}

func (r *run) describeGroup() {
	if state := result[string](r, programs.Command{Do: "describe-group", Group: readers}); !strings.EqualFold(state, "Empty") {
		r.t.Errorf("its state is %q", state)
	}
}

func (r *run) groupOffsets() {
	got := result[map[int32]int64](r, programs.Command{Do: "group-offsets", Group: readers, Topic: corpus, Partitions: partitions})
	if want := r.committed(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%v, committed is %v", got, want)
	}
}

func (r *run) deleteGroup() {
	r.do(programs.Command{Do: "delete-group", Group: readers})
	groups, err := r.admin.ListGroups(r.context())
	if err != nil {
		r.t.Fatal(err)
	}
	if slices.Contains(groups.Groups(), readers) {
		r.t.Error("it is still there")
	}
}

func (r *run) deleteTopic() {
	r.manage()
	r.do(programs.Command{Do: "delete-topic", Topic: managed})
	r.await("it is gone", func() (bool, error) {
		topics, err := r.admin.ListTopics(r.context())
		return !topics.Has(managed), err
	})
}
