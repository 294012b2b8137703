"""A member of a group that reads with confluent-kafka (see package groups)."""

import signal
import sys

from confluent_kafka import Consumer, KafkaException


def say(*words):
    print(*words, flush=True)


def assigned(consumer, partitions):
    say("assigned", ",".join(str(p.partition) for p in partitions))


def revoked(consumer, partitions):
    say("assigned")


def main():
    options = dict(arg[2:].split("=", 1) for arg in sys.argv[1:])
    config = {
        "bootstrap.servers": options["bootstrap"],
        "client.id": options["name"],
        "group.id": options["group"],
        "session.timeout.ms": int(options["session-ms"]),
        "heartbeat.interval.ms": 1000,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    if options["instance"]:
        config["group.instance.id"] = options["instance"]
    consumer = Consumer(config)
    leaving = []
    signal.signal(signal.SIGTERM, lambda signum, frame: leaving.append(signum))
    consumer.subscribe([options["topic"]], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not leaving:
        records = consumer.consume(100, timeout=0.2)
        read = False
        for m in records:
            if m.error():
                say("error", m.error())
                continue
            say("record", m.partition(), m.offset(), m.value().decode())
            read = True
        if read:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                say("commit", repr(error))
    consumer.close()


if __name__ == "__main__":
    main()
