package broker

import "os"

// Version is the release, set by the linker.
var Version = "development"

// KafkaVersion is the release of Apache Kafka whose behaviour this one has.
const KafkaVersion = "4.4"

func hostname() (string, error) { return os.Hostname() }
