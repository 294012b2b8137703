package scenarios

// Settings are what a broker that is compared must be configured with, each key=value:
// where the answers depend on it. All other keys have Kafka's defaults.
func Settings() []string {
	return []string{
		"group.initial.rebalance.delay.ms=0",
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
	}
}
