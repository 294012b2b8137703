package scenarios

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/klamm-mq/klamm/conform"
)

func clusterThrottles() []conform.Scenario {
	return []conform.Scenario{
		{Name: "cluster-throttles/of-topics", Key: 44, Needs: []int16{32}, Run: throttleTopics},
		{Name: "cluster-throttles/of-brokers", Key: 44, Needs: []int16{32}, Alone: true, Run: throttleBrokers},
	}
}

// throttledReplicas are the topic keys that say which replicas are throttled; throttledRates
// the brokers' keys that say how fast those go.
var (
	throttledReplicas = []string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
	throttledRates    = []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"}
)

func throttleTopics(r *conform.R) {
	r.CreateOn("a", [][]int{{0, 1}, {1, 2}})
	a := r.Name("a")
	for _, key := range throttledReplicas {
		r.Send("before: "+key, everything(configsOf(resource(topicResource, a, key))))
		for _, value := range []string{
			"", "*", "0:1", "0:1,1:2", "none", "0", "0:", ":1", "0:1,", ",0:1", "0:1, 1:2", " 0:1", "*,0:1", "-1:1", "0:-1", "0:1:2", "x:1", "0:x", "0:1;1:2", "99:99", "0:1,0:1",
		} {
			r.Send(fmt.Sprintf("%s = %q", key, value), change(topicResource, a, operation{set, key, of(value)}))
			r.Settle()
			r.Send(fmt.Sprintf("%s after %q", key, value), everything(configsOf(resource(topicResource, a, key))))
		}
		r.Send(key+" null", change(topicResource, a, operation{set, key, nil}))
		r.Send(key+" set", change(topicResource, a, operation{set, key, of("0:1")}))
		r.Send(key+" appended", change(topicResource, a, operation{appendTo, key, of("1:2")}))
		r.Send(key+" appended again", change(topicResource, a, operation{appendTo, key, of("1:2")}))
		r.Send(key+" appended all", change(topicResource, a, operation{appendTo, key, of("*")}))
		r.Send(key+" appended badly", change(topicResource, a, operation{appendTo, key, of("x")}))
		r.Settle()
		everywhere(r, key+" appended", func() describeConfigsRequest { return configsOf(resource(topicResource, a, key)) })
		r.Send(key+" taken away", change(topicResource, a, operation{kmsg.IncrementalAlterConfigOpSubtract, key, of("0:1,*")}))
		r.Settle()
		everywhere(r, key+" taken away", func() describeConfigsRequest { return configsOf(resource(topicResource, a, key)) })
		r.Send(key+" deleted", change(topicResource, a, operation{remove, key, nil}))
		r.Settle()
		r.Send(key+" deleted: what is left", everything(configsOf(resource(topicResource, a, key))))
	}
	for _, key := range throttledReplicas {
		r.Send("a new topic with "+key, validate(7, newTopic(r, "b", 1, 1, key, "0:1")))
		r.Send("a new topic with a bad "+key, validate(7, newTopic(r, "b", 1, 1, key, "x")))
	}
}

// throttleBrokers sets the rates of one broker and of all, and takes them back.
func throttleBrokers(r *conform.R) {
	name := func(i int) string { return fmt.Sprint(r.Node(i)) }
	look := func(title, key string) {
		r.Settle()
		for of := range r.Count() {
			everywhere(r, fmt.Sprintf("%s: %s of node %d", title, key, of+1), func() describeConfigsRequest {
				return everything(configsOf(resource(brokerResource, name(of), key)))
			})
		}
		everywhere(r, fmt.Sprintf("%s: %s of all", title, key), func() describeConfigsRequest { return everything(configsOf(resource(brokerResource, "", key))) })
	}
	for at, key := range throttledRates {
		look("before", key)
		for _, value := range []string{"", "x", "-1", "0", "1", "1.5", " 7 ", "9223372036854775807", "9223372036854775808"} {
			for _, whose := range []string{name(1), ""} {
				ask := change(brokerResource, whose, operation{set, key, of(value)})
				ask.ValidateOnly = true
				r.SendTo(at, fmt.Sprintf("%s = %q, of all: %t", key, value, whose == ""), ask)
			}
		}
		apply := func(title, whose string, op kmsg.IncrementalAlterConfigOp, value *string) {
			r.SendTo(at, title+": "+key, change(brokerResource, whose, operation{op, key, value}))
			look(title, key)
		}
		apply("set of the second", name(1), set, of("1000000"))
		apply("set of all", "", set, of("2000000"))
		apply("appended", name(1), appendTo, of("5"))
		apply("deleted of the second", name(1), remove, nil)
		apply("deleted of all", "", remove, nil)
	}
}
