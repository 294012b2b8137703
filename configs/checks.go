package configs

import (
	"fmt"
	"slices"
	"strings"
)

// checker fills what depends on several keys, and refuses what does not go together.
// Kafka: KafkaConfig.validateValues.
type checker struct {
	b        *Broker
	s        *store
	v        values
	problems Problems
}

func (c *checker) run() {
	c.identity()
	c.listeners()
	if len(c.problems) == 0 { // the rest assumes readable listeners
		c.interBrokerListener()
		c.advertised()
		c.roles()
	}
	c.limits()
	c.cleaner()
	c.topicDefaults()
}

func (c *checker) refuse(key, format string, args ...any) {
	c.problems = append(c.problems, c.s.problem(key, fmt.Sprintf(format, args...)))
}

func (c *checker) identity() {
	if c.b.IsSet("node.id") && c.b.IsSet("broker.id") && c.v.int("broker.id") != c.b.NodeID {
		c.refuse("broker.id", "must be the same as node.id (%d)", c.b.NodeID)
	}
	if c.b.NodeID < 0 {
		c.refuse("broker.id", "must be at least 0")
	}
	voters, err := parseVoters(c.v.list("controller.quorum.voters"))
	if err != nil { // the key's validator has seen it
		c.refuse("controller.quorum.voters", "%v", err)
	}
	c.b.Quorum.Voters = voters
	if c.b.IsSet("controller.quorum.bootstrap.servers") && len(voters)+len(c.b.Quorum.BootstrapServers) == 0 {
		c.refuse("controller.quorum.bootstrap.servers", "must name a controller; leave it out where this node is alone")
	}
	if len(voters)+len(c.b.Quorum.BootstrapServers) > 0 && !c.b.NodeIDSet {
		c.problems = append(c.problems, Problem{
			Place: "configuration", Key: "node.id",
			Reason: "must be set where controller.quorum.* names nodes, so that no two have the same",
		})
	}
}

func (c *checker) listeners() {
	var err error
	if c.b.Listeners, err = parseListeners(c.v.list("listeners"), true); err != nil {
		c.refuse("listeners", "%v", err)
	}
	if c.v.has("advertised.listeners") {
		if c.b.Advertised, err = parseListeners(c.v.list("advertised.listeners"), false); err != nil {
			c.refuse("advertised.listeners", "%v", err)
		}
	}
	protocols, err := parseProtocolMap(c.v.text("listener.security.protocol.map"))
	if err != nil {
		c.refuse("listener.security.protocol.map", "%v", err)
		return
	}
	for _, l := range c.b.Listeners {
		c.protocol("listeners", l.Name, protocols)
	}
	if !c.b.ControllerRole {
		for _, name := range c.b.ControllerListeners {
			c.protocol("controller.listener.names", listenerName(name), protocols)
		}
	}
}

// protocol refuses a listener that would have to be protected.
func (c *checker) protocol(key, name string, protocols map[string]string) {
	protocol, known := protocols[name]
	switch {
	case known && protocol != "PLAINTEXT":
		c.refuse(key, "listener %s asks for %s, which is not supported yet; it is refused rather than served unprotected", name, protocol)
	case known:
	case c.b.IsSet("listener.security.protocol.map"):
		c.refuse(key, "listener.security.protocol.map has no protocol for listener %s", name)
	case !c.b.IsControllerListener(name): // controllers' are PLAINTEXT unless told otherwise
		c.refuse(key, "listener %s needs a protocol in listener.security.protocol.map", name)
	}
}

// interBrokerListener is the named one, else that of the protocol, else the only one.
func (c *checker) interBrokerListener() {
	const key = "inter.broker.listener.name"
	if protocol := c.v.text("security.inter.broker.protocol"); protocol != "PLAINTEXT" {
		c.refuse("security.inter.broker.protocol", "%s is not supported yet; it is refused rather than replaced by PLAINTEXT", protocol)
	}
	if c.b.IsSet(key) && c.b.IsSet("security.inter.broker.protocol") {
		c.refuse("security.inter.broker.protocol", "only one of this key and %s can be set", key)
	}
	if !c.b.BrokerRole {
		return
	}
	available := c.b.BrokerListeners()
	switch name := listenerName(optional[string](c.v, key)); {
	case len(available) == 0:
		c.refuse("listeners", "all listeners are controller listeners; a broker needs one of its own")
	case name != "":
		c.b.InterBrokerListener = name
		if !hasListener(available, name) {
			c.refuse(key, "must be one of the broker's listeners: %s", listenerNames(available))
		}
	case hasListener(available, "PLAINTEXT"):
		c.b.InterBrokerListener = "PLAINTEXT"
	case len(available) == 1:
		c.b.InterBrokerListener = available[0].Name
	default:
		c.problems = append(c.problems, Problem{
			Place: "configuration", Key: key,
			Reason: "must be set to one of the broker's listeners: " + listenerNames(available),
		})
	}
}

func (c *checker) advertised() {
	const key = "advertised.listeners"
	for _, l := range c.b.Advertised {
		switch {
		case !c.b.HasListener(l.Name) && !c.b.IsControllerListener(l.Name):
			c.refuse(key, "%s is not one of the listeners: %s", l.Name, listenerNames(c.b.Listeners))
		case l.Wildcard():
			c.refuse(key, "%s: clients cannot connect to a wildcard address", l)
		}
	}
	if c.b.BrokerRole && c.b.Advertised != nil && c.b.InterBrokerListener != "" && !hasListener(c.b.Advertised, c.b.InterBrokerListener) {
		c.refuse(key, "lacks the inter-broker listener %s", c.b.InterBrokerListener)
	}
}

// roles are Kafka's rules for brokers and controllers in one process or apart.
func (c *checker) roles() {
	voter := slices.ContainsFunc(c.b.Quorum.Voters, func(v Voter) bool { return v.ID == c.b.NodeID })
	if c.b.ControllerRole {
		if len(c.b.Quorum.Voters) > 0 && !voter {
			c.refuse("controller.quorum.voters", "must contain this node (%d), which is a controller", c.b.NodeID)
		}
		for _, name := range c.b.ControllerListeners {
			if !c.b.HasListener(listenerName(name)) {
				c.refuse("controller.listener.names", "%s is not one of the listeners: %s", name, listenerNames(c.b.Listeners))
			}
		}
		if !c.b.BrokerRole && len(c.b.BrokerListeners()) > 0 && len(c.b.ControllerListeners) > 0 {
			c.refuse("listeners", "a controller without the broker role has controller listeners alone")
		}
		return
	}
	switch {
	case voter:
		c.refuse("controller.quorum.voters", "contains this node (%d), which has no controller role", c.b.NodeID)
	case c.b.Quorum.AutoJoin:
		c.refuse("controller.quorum.auto.join.enable", "is for nodes that have the controller role")
	case len(c.b.Quorum.Voters)+len(c.b.Quorum.BootstrapServers) == 0:
		c.refuse("process.roles", "a broker without the controller role needs controller.quorum.bootstrap.servers or controller.quorum.voters")
	}
	for _, l := range c.b.Listeners {
		if c.b.IsControllerListener(l.Name) {
			c.refuse("listeners", "%s is a controller listener, and this node is no controller", l.Name)
		}
	}
}

func (c *checker) limits() {
	n := &c.b.Network
	overrides, err := parsePerIP(c.v.text("max.connections.per.ip.overrides"))
	if err != nil { // the key's validator has seen it
		c.refuse("max.connections.per.ip.overrides", "%v", err)
	}
	n.MaxConnectionsPerIPOverrides = overrides
	if n.MaxConnectionsPerIP == 0 && len(overrides) == 0 {
		c.refuse("max.connections.per.ip", "would let nobody in without max.connections.per.ip.overrides")
	}
	c.authenticationDelay()
	if n.QueuedMaxRequestBytes > 0 && n.QueuedMaxRequestBytes < int64(n.MaxRequestBytes) {
		c.refuse("queued.max.request.bytes", "must be at least socket.request.max.bytes (%d)", n.MaxRequestBytes)
	}
	r := &c.b.Replication
	if r.FetchWaitMax > r.SocketTimeout {
		c.refuse("replica.fetch.wait.max.ms", "must not be more than replica.socket.timeout.ms (%d)", r.SocketTimeout.Milliseconds())
	}
	if r.FetchWaitMax > r.LagTimeMax {
		c.refuse("replica.fetch.wait.max.ms", "must not be more than replica.lag.time.max.ms (%d)", r.LagTimeMax.Milliseconds())
	}
}

// topicDefaults refuses what no topic could be opened with.
func (c *checker) topicDefaults() {
	for _, name := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
		if c.v.has(name) && number(c.v[name]) == 0 {
			c.refuse(name, "must be at least 1, or negative for ever")
		}
	}
	parsed := values{}
	for i := range topicKeys {
		key := &topicKeys[i]
		text, source, set := effective(key, nil, c.b)
		if !set && key.Unset {
			continue
		}
		value, err := key.Parse(text)
		if err != nil && source == SourceStatic {
			c.refuse(c.synonymInUse(key), "%v", err)
			continue
		}
		parsed[key.Name] = value
	}
	if least := parsed["min.compaction.lag.ms"]; least != nil && number(least) > number(parsed["max.compaction.lag.ms"]) {
		c.refuse("log.cleaner.min.compaction.lag.ms", "must not be more than log.cleaner.max.compaction.lag.ms")
	}
}

func (c *checker) synonymInUse(key *Key) string {
	for _, synonym := range key.Synonyms {
		if c.b.IsSet(synonym.Name) {
			return synonym.Name
		}
	}
	return key.Name
}

// advice is what is allowed and probably not meant.
func (b *Broker) advice() []Warning {
	var warnings []Warning
	if b.HeartbeatInterval*2 > b.SessionTimeout {
		warnings = append(warnings, Warning(fmt.Sprintf(
			"broker.heartbeat.interval.ms (%d) is more than half of broker.session.timeout.ms (%d): one late heartbeat costs leadership",
			b.HeartbeatInterval.Milliseconds(), b.SessionTimeout.Milliseconds())))
	}
	if b.IsSet("log.dirs") && b.IsSet("log.dir") {
		warnings = append(warnings, Warning("log.dir is ignored, since log.dirs is set: "+strings.Join(b.LogDirs, ",")))
	}
	return warnings
}
