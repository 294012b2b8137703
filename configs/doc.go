// Package configs turns the text of configuration into typed values: what a broker was
// told at start ([Load], [Broker]) and what a topic was told by clients ([ParseTopic],
// [Topic]).
//
// Keys, their types, defaults and limits are those of Apache Kafka 4.4 (ConfigDef,
// KafkaConfig, LogConfig, GroupConfig), and stand in three tables: [TopicKeys],
// [GroupKeys] and [BrokerKeys]. A test compares them with what Kafka 4.4 itself lists
// (testdata/kafka-*.tsv), except for the departures that it names. A key of ours that Kafka does not have is marked Ours.
//
// # From where a broker's value comes
//
// The later wins; each value remembers its place, so that "klamm config" can show it and
// an error can name it:
//
//	default  <  files, in order  <  KAFKA_… environment  <  KLAMM_… environment  <  --set
//
// Files are Java properties, YAML or TOML. In YAML and TOML a key may be written flat
// ("log.dirs") or nested (log: {dirs: …}); both are one flat key, since max.connections
// and max.connections.per.ip are both keys. Names are case-sensitive, as in Kafka.
// Environment names follow the apache/kafka image: KAFKA_LOG_DIRS is log.dirs, "__" an
// underscore, "___" a hyphen.
//
// # What a name can be
//
//	served     in BrokerKeys; a bad value is a Problem, and Load gives no Broker
//	refused    asks for protection that does not exist here (TLS, SASL, an authorizer,
//	           policies): a Problem, since ignoring it would be worse than not starting
//	pointless  of Kafka, without meaning here (threads of the JVM, ZooKeeper): one Warning
//	           for all of them; a value that Kafka refuses is a Problem all the same
//	later      of Kafka, and not yet supported: the same
//	unknown    a Warning each, with the nearest known name
//
// # What is set while brokers run
//
// Clients set keys on all brokers and on one of them ([Dynamic]); metadata keeps them, and
// [Broker.With] gives the configuration that results. [IsDynamic] names the keys that may
// be set so, [Broker.CheckDynamic] refuses the rest. The order of the places is then
//
//	default  <  what Load found  <  all brokers  <  this broker  (<  the topic)
//
// [Broker.Describe], [DescribeTopic], [DescribeGroup] and [DescribeClientMetrics] list
// keys as DescribeConfigs answers them, with every place that has a value.
//
// A topic's value comes from its own setting, else from the broker key that Kafka calls
// its synonym, else from the default; see [EffectiveTopic].
//
// Pure: no goroutines, no state; only Load reads files. Viper decodes and merges them;
// nothing else in the broker knows it.
package configs
