// Package compat holds the tests that drive a real klamm process with real clients:
// each client in a package of its own, so that what a run needs is chosen by naming
// packages and never by a skipped test.
//
//	harness   builds the binary, starts, kills and stops processes
//	groups    the life of a consumer group, which the clients below play
//	matrix    what a client can do, which they show; tap reads along on the wire
//	franz     franz-go (only Go is needed)
//	sarama    IBM/sarama (the same)
//	kafkago   segmentio/kafka-go (the same)
//	confluentgo  confluent-kafka-go (a C compiler)
//	kcat      librdkafka's command line (kcat on PATH)
//	javaclient  Kafka's own client (a JDK, kcat, and Maven once)
//	python    kafka-python, confluent-kafka, aiokafka (Python with venv, and pip once)
//	node      KafkaJS, @platformatic/kafka (Node.js with npm, and npm once)
//	dumplog   Kafka's DumpLogSegments reads our files (Java, and Maven once)
//	exchange  segments move between Klamm and Kafka (the same)
//	oracle    Klamm beside a running Kafka, answer by answer (the same)
//	kfake     franz-go's fake is found to differ from Kafka (only Go)
//	crash     SIGKILL in a loop under load of three client programs (kcat on PATH)
//	disk      a file system that fills up (root, for mounting it)
package compat
