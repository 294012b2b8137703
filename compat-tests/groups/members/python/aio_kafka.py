"""A member of a group that reads with aiokafka (see package groups)."""

import asyncio
import logging
import signal
import sys

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError


def say(*words):
    print(*words, flush=True)


class Owned(ConsumerRebalanceListener):
    """Prints the partitions each time they change."""

    async def on_partitions_revoked(self, revoked):
        say("assigned")

    async def on_partitions_assigned(self, assigned):
        say("assigned", ",".join(str(p.partition) for p in assigned))


async def main():
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    options = dict(arg[2:].split("=", 1) for arg in sys.argv[1:])
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        client_id=options["name"],
        group_id=options["group"],
        group_instance_id=options["instance"] or None,
        session_timeout_ms=int(options["session-ms"]),
        heartbeat_interval_ms=1000,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    consumer.subscribe([options["topic"]], listener=Owned())
    await consumer.start()
    try:
        while not leaving.is_set():
            batches = await consumer.getmany(timeout_ms=200)
            for batch in batches.values():
                for record in batch:
                    say("record", record.partition, record.offset, record.value.decode())
            if batches:
                try:
                    await consumer.commit()
                except KafkaError as error:
                    say("commit", repr(error))
    finally:
        await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main())
