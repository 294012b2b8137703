package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/klamm-mq/klamm/configs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var nums = []string{"", " ", "x", "-3", "-2", "-1", "0", "1", "2", "3", "99", "100", "1000", "100000", "100000000", "1.5", "0.5", " 7 ", "+7", "0x10", "1e3", "7L", "NaN", "Infinity", "32768", "2147483648", "9223372036854775807", "9223372036854775808"}
var texts = []string{"", " ", "x", "x,y", ",", "x,,y", "x,x", "1", "true", "delete", "compact", "delete,compact", "compact,compact", "CreateTime", "createtime", "LogAppendTime", "gzip", "GZIP", "uncompressed", "producer", "none", "127.0.0.1:5", "localhost:7", "127.0.0.1:x", "a b:4", "*", "0:1", "0:1,1:2", "0:a"}
var bools = []string{"", " ", "true", "TRUE", " false ", "yes", "1", "0", "on"}

func main() {
	ctx := context.Background()
	var cls []*kgo.Client
	for _, a := range []string{"127.0.0.1:18092", "127.0.0.1:21700"} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(a), kgo.RequestRetries(0), kgo.RetryTimeout(20*time.Second))
		if err != nil {
			panic(err)
		}
		cls = append(cls, cl)
		req := kmsg.NewPtrCreateTopicsRequest()
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = "k7probe"
		t.NumPartitions = 1
		t.ReplicationFactor = 1
		req.Topics = append(req.Topics, t)
		req.TimeoutMillis = 10000
		req.RequestWith(ctx, cl)
	}
	type kind struct {
		t    kmsg.ConfigResourceType
		name string
		keys []configs.Key
	}
	var brokerKeys []configs.Key
	for _, k := range configs.ListedKeys() {
		brokerKeys = append(brokerKeys, k)
	}
	for _, n := range []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second", "no.such", "retention.ms", "listener.name.plaintext.max.connections", "listener.name.plaintext.num.network.threads"} {
		brokerKeys = append(brokerKeys, configs.Key{Name: n, Type: configs.Long})
	}
	kinds := []kind{
		{kmsg.ConfigResourceTypeBroker, "1", brokerKeys}, {kmsg.ConfigResourceTypeBroker, "", brokerKeys},
		{kmsg.ConfigResourceTypeTopic, "k7probe", configs.TopicKeys()},
		{32, "k7group", configs.GroupKeys()}, {16, "k7metrics", configs.ClientMetricsKeys()},
	}
	verbose := len(os.Args) > 1
	for _, k := range kinds {
		for _, key := range k.keys {
			vals := nums
			switch key.Type {
			case configs.Boolean:
				vals = bools
			case configs.Int, configs.Long, configs.Short, configs.Double:
			default:
				vals = texts
			}
			diffs := map[string][]string{}
			readonly := 0
			for _, v := range vals {
				var res [2]string
				for i, cl := range cls {
					req := kmsg.NewPtrIncrementalAlterConfigsRequest()
					req.ValidateOnly = true
					r := kmsg.NewIncrementalAlterConfigsRequestResource()
					r.ResourceType = k.t
					r.ResourceName = k.name
					c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
					c.Name = key.Name
					c.Value = kmsg.StringPtr(v)
					c.Op = 0
					r.Configs = append(r.Configs, c)
					req.Resources = append(req.Resources, r)
					var resp kmsg.Response
					var err error
					if k.t == kmsg.ConfigResourceTypeBroker && k.name != "" {
						resp, err = cl.Broker(1).Request(ctx, req)
					} else {
						resp, err = cl.Request(ctx, req)
					}
					if err != nil {
						res[i] = "ERR " + err.Error()
						continue
					}
					rr := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
					res[i] = "OK"
					if e := kerr.ErrorForCode(rr.ErrorCode); e != nil {
						res[i] = strings.SplitN(e.Error(), ":", 2)[0]
					}
					if rr.ErrorMessage != nil && i == 1 && strings.Contains(*rr.ErrorMessage, "cannot be changed") {
						readonly++
					}
					if verbose && rr.ErrorMessage != nil {
						fmt.Printf("   %d %s=%q %s %s\n", i, key.Name, v, res[i], *rr.ErrorMessage)
					}
				}
				if res[0] != res[1] {
					diffs[res[0]+"/"+res[1]] = append(diffs[res[0]+"/"+res[1]], fmt.Sprintf("%q", v))
				}
			}
			var ks []string
			for d := range diffs {
				ks = append(ks, d)
			}
			sort.Strings(ks)
			for _, d := range ks {
				fmt.Println(k.t, "["+k.name+"]", key.Name, d, diffs[d], map[bool]string{true: "READONLY"}[readonly > 0])
			}
		}
	}
}
