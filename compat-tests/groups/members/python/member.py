"""A member of a group that reads with kafka-python (see package groups)."""

import signal
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaError


def say(*words):
    print(*words, flush=True)


class Owned(ConsumerRebalanceListener):
    """Prints the partitions each time they change."""

    def on_partitions_revoked(self, revoked):
        say("assigned")

    def on_partitions_assigned(self, assigned):
        say("assigned", ",".join(str(p.partition) for p in assigned))


def stop(signum, frame):
    raise KeyboardInterrupt


def main():
    options = dict(arg[2:].split("=", 1) for arg in sys.argv[1:])
    signal.signal(signal.SIGTERM, stop)
    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        client_id=options["name"],
        group_id=options["group"],
        group_instance_id=options["instance"] or None,
        session_timeout_ms=int(options["session-ms"]),
        heartbeat_interval_ms=1000,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consumer.partitions_for_topic(options["topic"])  # or metadata that changes while it joins can leave it waiting
    consumer.subscribe([options["topic"]], listener=Owned())
    try:
        while True:
            try:
                batches = consumer.poll(timeout_ms=200)
            except KafkaError as error:  # now and then, when a refresh of its metadata meets no broker
                say("poll", repr(error))
                continue
            for batch in batches.values():
                for record in batch:
                    say("record", record.partition, record.offset, record.value.decode())
            if batches:
                try:
                    consumer.commit()
                except KafkaError as error:
                    say("commit", repr(error))
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close(autocommit=False)


if __name__ == "__main__":
    main()
