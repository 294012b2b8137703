"""Shows what aiokafka does (see package matrix)."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

import program


async def produce(bootstrap, c):
    config = {}
    if "acks" in c:
        config["acks"] = c["acks"] if c["acks"] == "all" else int(c["acks"])
    if "codec" in c:
        config["compression_type"] = None if c["codec"] == "none" else c["codec"]
    if c.get("idempotent"):
        config["enable_idempotence"] = True
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **config) as producer:
        futures = [
            await producer.send(
                c["topic"], key=program.raw(r["key"]), value=program.raw(r["value"]), timestamp_ms=r.get("time"),
                headers=program.headers(r),
            )
            for r in c["records"]
        ]
        for index, future in enumerate(futures):
            written = await future
            if c.get("acks") != "0":
                program.acked(index, written.partition, written.offset)


async def read(consumer, count):
    """Reads so many records, and returns where to go on."""
    next_offsets = {}
    while count > 0:
        for partition, records in (await consumer.getmany(timeout_ms=200, max_records=count)).items():
            for r in records:
                program.show(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)
                next_offsets[partition] = r.offset + 1
                count -= 1
    return next_offsets


async def consume(bootstrap, c):
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition(c["topic"], p) for p in range(c["partitions"])]
        consumer.assign(partitions)
        if c["from"] == "start":
            await consumer.seek_to_beginning()
        elif c["from"] == "end":
            await consumer.seek_to_end()
        else:
            for partition, found in (await consumer.offsets_for_times({p: int(c["from"]) for p in partitions})).items():
                consumer.seek(partition, found.offset)
        await read(consumer, c["count"])


async def group(bootstrap, c):
    async with AIOKafkaConsumer(
        c["topic"], bootstrap_servers=bootstrap, group_id=c["group"], enable_auto_commit=False, auto_offset_reset="earliest",
    ) as consumer:
        await consumer.commit(await read(consumer, c["count"]))


def topic(c):
    return ConfigResource(ConfigResourceType.TOPIC, c["topic"], c.get("configs"))


def checked(answers):
    """The answers of a request about configurations, which carry their errors."""
    for answer in answers:
        for code, message, *_ in answer.resources:
            if code:
                raise for_code(code)(message)
    return answers


async def create_topic(admin, c):
    await admin.create_topics([NewTopic(c["topic"], c["partitions"], 1, topic_configs=c["configs"])])


async def delete_topic(admin, c):
    await admin.delete_topics([c["topic"]])


async def create_partitions(admin, c):
    await admin.create_partitions({c["topic"]: NewPartitions(c["partitions"])})


async def delete_records(admin, c):
    await admin.delete_records({TopicPartition(c["topic"], 0): RecordsToDelete(before_offset=c["offset"])})


async def alter_configs(admin, c):
    checked(await admin.alter_configs([topic(c)]))


async def describe_configs(admin, c):
    (answer,) = checked(await admin.describe_configs([topic(c)]))
    (resource,) = answer.resources
    return {key: value for key, value, *_ in resource[4]}


async def list_topics(admin, c):
    return await admin.list_topics()


async def describe_topic(admin, c):
    (described,) = await admin.describe_topics([c["topic"]])
    return len(described["partitions"])


async def list_groups(admin, c):
    return [name for name, *_ in await admin.list_consumer_groups()]


async def describe_group(admin, c):
    (answer,) = await admin.describe_consumer_groups([c["group"]])
    (described,) = answer.groups
    return described[2]


async def group_offsets(admin, c):
    return {p.partition: o.offset for p, o in (await admin.list_consumer_group_offsets(c["group"])).items()}


ADMIN = {
    "create-topic": create_topic,
    "delete-topic": delete_topic,
    "create-partitions": create_partitions,
    "delete-records": delete_records,
    "alter-configs": alter_configs,
    "describe-configs": describe_configs,
    "list-topics": list_topics,
    "describe-topic": describe_topic,
    "list-groups": list_groups,
    "describe-group": describe_group,
    "group-offsets": group_offsets,
}


async def administer(bootstrap, c):
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return await ADMIN[c["do"]](admin, c)
    finally:
        await admin.close()


def do(bootstrap, c):
    return asyncio.run({"produce": produce, "consume": consume, "group": group}.get(c["do"], administer)(bootstrap, c))


if __name__ == "__main__":
    program.serve(do)
