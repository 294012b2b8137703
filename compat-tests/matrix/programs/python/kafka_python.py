"""Shows what kafka-python does (see package matrix)."""

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource
from kafka.structs import OffsetAndMetadata

import program


def produce(bootstrap, c):
    config = {}
    if "acks" in c:
        config["acks"] = c["acks"] if c["acks"] == "all" else int(c["acks"])
    if "codec" in c:
        config["compression_type"] = None if c["codec"] == "none" else c["codec"]
    if c.get("idempotent"):
        config["enable_idempotence"] = True
    producer = KafkaProducer(bootstrap_servers=bootstrap, **config)
    futures = [
        producer.send(
            c["topic"], key=program.raw(r["key"]), value=program.raw(r["value"]), timestamp_ms=r.get("time"),
            headers=program.headers(r),
        )
        for r in c["records"]
    ]
    for index, future in enumerate(futures):
        written = future.get(timeout=30)
        if c.get("acks") != "0":
            program.acked(index, written.partition, written.offset)
    producer.close()


def read(consumer, count):
    """Reads so many records, and returns where to go on."""
    next_offsets = {}
    while count > 0:
        for partition, records in consumer.poll(timeout_ms=200, max_records=count).items():
            for r in records:
                program.show(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)
                next_offsets[partition] = OffsetAndMetadata(r.offset + 1, "", -1)
                count -= 1
    return next_offsets


def consume(bootstrap, c):
    config = {}
    if "rack" in c:  # a replica that it is sent to, and does not know yet, it learns of with its next metadata only
        config = {"client_rack": c["rack"], "metadata_max_age_ms": 1000}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, **config)
    partitions = [TopicPartition(c["topic"], p) for p in range(c["partitions"])]
    consumer.assign(partitions)
    if c["from"] == "start":
        consumer.seek_to_beginning()
    elif c["from"] == "end":
        consumer.seek_to_end()
    else:
        for partition, found in consumer.offsets_for_times({p: int(c["from"]) for p in partitions}).items():
            consumer.seek(partition, found.offset)
    read(consumer, c["count"])
    consumer.close()


def group(bootstrap, c):
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=c["group"], enable_auto_commit=False, auto_offset_reset="earliest",
    )
    # Metadata that changes while it joins can leave the library waiting for ever, with everything answered: it is
    # asked for before.
    consumer.partitions_for_topic(c["topic"])
    consumer.subscribe([c["topic"]])
    consumer.commit(read(consumer, c["count"]))
    consumer.close()


def administer(bootstrap, c):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return ADMIN[c["do"]](admin, c)
    finally:
        admin.close()


def create_topic(admin, c):
    admin.create_topics({c["topic"]: {"num_partitions": c["partitions"], "replication_factor": 1, "configs": c["configs"]}})


def delete_topic(admin, c):
    admin.delete_topics([c["topic"]])


def create_partitions(admin, c):
    admin.create_partitions({c["topic"]: c["partitions"]})


def delete_records(admin, c):
    admin.delete_records({TopicPartition(c["topic"], 0): c["offset"]})


def alter_configs(admin, c):
    admin.alter_configs([ConfigResource("topic", c["topic"], c["configs"])])


def describe_configs(admin, c):
    described = admin.describe_configs([ConfigResource("topic", c["topic"])], config_filter="all")
    return {key: entry["value"] for key, entry in described["topic"][c["topic"]].items()}


def describe_topic(admin, c):
    return len(admin.describe_topics([c["topic"]])[0]["partitions"])


def group_offsets(admin, c):
    return {p.partition: o.offset for p, o in admin.list_group_offsets({c["group"]: None})[c["group"]].items()}


def delete_group(admin, c):
    admin.delete_groups([c["group"]])


ADMIN = {
    "create-topic": create_topic,
    "delete-topic": delete_topic,
    "create-partitions": create_partitions,
    "delete-records": delete_records,
    "alter-configs": alter_configs,
    "describe-configs": describe_configs,
    "list-topics": lambda admin, c: admin.list_topics(),
    "describe-topic": describe_topic,
    "list-groups": lambda admin, c: [g["group_id"] for g in admin.list_groups()],
    "describe-group": lambda admin, c: admin.describe_groups([c["group"]])[c["group"]]["group_state"],
    "group-offsets": group_offsets,
    "delete-group": delete_group,
}


def do(bootstrap, c):
    return {"produce": produce, "consume": consume, "group": group}.get(c["do"], administer)(bootstrap, c)


if __name__ == "__main__":
    program.serve(do)
