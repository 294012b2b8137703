"""A producer with confluent-kafka, which is librdkafka, made idempotent (see package chaos)."""

import signal
import sys

from confluent_kafka import Producer


def say(*words):
    print(*words, flush=True)


def main():
    options = dict(arg[2:].split("=", 1) for arg in sys.argv[1:])
    partitions, pace = int(options["partitions"]), int(options["pace-ms"]) / 1000
    leaving = []
    signal.signal(signal.SIGTERM, lambda signum, frame: leaving.append(signum))
    producer = Producer(
        {
            "bootstrap.servers": options["bootstrap"],
            "client.id": options["name"],
            "enable.idempotence": True,
        }
    )

    def told(n):
        def on_delivery(error, m):
            if error is not None:
                say("failed", n, error)
            else:
                say("acked", n, m.partition(), m.offset())

        return on_delivery

    i = 0
    while not leaving:
        value = f"{options['name']}-{i}"
        producer.produce(options["topic"], value=value, partition=i % partitions, on_delivery=told(i))
        i += 1
        producer.poll(pace)
    producer.flush()


if __name__ == "__main__":
    main()
