"""Shows what confluent-kafka does, librdkafka with a face of Python (see package matrix)."""

from confluent_kafka import (
    OFFSET_BEGINNING, OFFSET_END, Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

import program

PATIENCE = 30  # seconds


def produce(bootstrap, c):
    config = {"bootstrap.servers": bootstrap}
    if "acks" in c:
        config["acks"] = c["acks"]
    if "codec" in c:
        config["compression.type"] = c["codec"]
    if c.get("idempotent"):
        config["enable.idempotence"] = True
    producer = Producer(config)
    failed = []

    def delivered(index):
        def report(error, message):
            if error:
                failed.append(error)
            elif c.get("acks") != "0":
                program.acked(index, message.partition(), message.offset())

        return report

    for index, r in enumerate(c["records"]):
        producer.produce(
            c["topic"], key=r["key"], value=r["value"], headers=program.headers(r), timestamp=r.get("time", 0),
            on_delivery=delivered(index),
        )
    left = producer.flush(PATIENCE)
    if left or failed:
        raise KafkaException(f"{left} records are left, {failed}")


def read(consumer, count):
    """Reads so many records, and returns where to go on."""
    next_offsets = {}
    while count > 0:
        m = consumer.poll(0.2)
        if m is None:
            continue
        if m.error():
            if m.error().code() == KafkaError._TRANSPORT:  # a connection that is lost is made again
                continue
            raise KafkaException(m.error())
        program.show(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers())
        next_offsets[m.partition()] = m.offset() + 1
        count -= 1
    return next_offsets


def consume(bootstrap, c):
    # The partitions are assigned by hand; the library wants the name of a group all the same.
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "client.rack": c.get("rack", ""),
    })
    places = {"start": OFFSET_BEGINNING, "end": OFFSET_END}
    partitions = [TopicPartition(c["topic"], p, places.get(c["from"]) or int(c["from"])) for p in range(c["partitions"])]
    if c["from"] not in places:
        partitions = consumer.offsets_for_times(partitions, timeout=PATIENCE)
    consumer.assign(partitions)
    read(consumer, c["count"])
    consumer.close()


def group(bootstrap, c):
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": c["group"], "enable.auto.commit": False, "auto.offset.reset": "earliest",
    })
    consumer.subscribe([c["topic"]])
    offsets = [TopicPartition(c["topic"], p, at) for p, at in read(consumer, c["count"]).items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def only(futures):
    """The result of the only thing that was asked for."""
    (future,) = futures.values()
    return future.result(PATIENCE)


def alter_configs(admin, c):
    changes = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in c["configs"].items()]
    only(admin.incremental_alter_configs([ConfigResource("topic", c["topic"], incremental_configs=changes)]))


def describe_configs(admin, c):
    return {key: entry.value for key, entry in only(admin.describe_configs([ConfigResource("topic", c["topic"])])).items()}


def create_topic(admin, c):
    only(admin.create_topics([NewTopic(c["topic"], c["partitions"], 1, config=c["configs"])]))


def delete_records(admin, c):
    only(admin.delete_records([TopicPartition(c["topic"], 0, c["offset"])]))


def group_offsets(admin, c):
    answer = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(c["group"])]))
    return {p.partition: p.offset for p in answer.topic_partitions}


ADMIN = {
    "create-topic": create_topic,
    "delete-topic": lambda admin, c: only(admin.delete_topics([c["topic"]])),
    "create-partitions": lambda admin, c: only(admin.create_partitions([NewPartitions(c["topic"], c["partitions"])])),
    "delete-records": delete_records,
    "alter-configs": alter_configs,
    "describe-configs": describe_configs,
    "list-topics": lambda admin, c: list(admin.list_topics(timeout=PATIENCE).topics),
    "describe-topic": lambda admin, c: len(only(admin.describe_topics(TopicCollection([c["topic"]]))).partitions),
    "list-groups": lambda admin, c: [g.group_id for g in admin.list_consumer_groups().result(PATIENCE).valid],
    "describe-group": lambda admin, c: only(admin.describe_consumer_groups([c["group"]])).state.name,
    "group-offsets": group_offsets,
    "delete-group": lambda admin, c: only(admin.delete_consumer_groups([c["group"]])),
}


def administer(bootstrap, c):
    return ADMIN[c["do"]](AdminClient({"bootstrap.servers": bootstrap}), c)


def do(bootstrap, c):
    return {"produce": produce, "consume": consume, "group": group}.get(c["do"], administer)(bootstrap, c)


if __name__ == "__main__":
    program.serve(do)
