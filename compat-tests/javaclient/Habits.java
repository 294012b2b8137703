import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What applications in Java rely on beside the plain reading and writing of package matrix.
 * Prints "ok NAME" or "failed NAME: why" for each; the argument is the address of a broker.
 */
public final class Habits {
    private interface Check {
        void run() throws Exception;
    }

    private final String bootstrap;
    private final Admin admin;

    private Habits(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] args) {
        Habits h = new Habits(args[0]);
        verdict("a topic is created when it is first written to", h::autoCreate);
        verdict("a record that is too large is refused", h::tooLarge);
        verdict("a batch that is too large is split", h::split);
        verdict("a record of the future is refused", h::future);
        verdict("a group without offsets starts where it is told to", h::reset);
        verdict("a position that is gone", h::outOfRange);
        verdict("topics by pattern", h::pattern);
        verdict("offsets have metadata", h::metadata);
        verdict("read_committed reads what has no transaction", h::readCommitted);
        verdict("a large record is read through small fetches", h::smallFetches);
        verdict("listed offsets", h::listOffsets);
        verdict("kinds of errors", h::errors);
        h.admin.close(Duration.ofSeconds(5));
        System.exit(0);
    }

    private static void verdict(String name, Check check) {
        try {
            check.run();
            System.out.println("\nok " + name);
        } catch (Throwable e) {
            System.out.println("\nfailed " + name + ": " + e);
            e.printStackTrace();
        }
    }

    private static void equal(Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    /** Expects an error of a kind from a future. */
    private static void fails(Class<? extends Exception> kind, Future<?> future) throws Exception {
        try {
            throw new AssertionError("no " + kind.getSimpleName() + " but " + future.get());
        } catch (ExecutionException e) {
            equal(e.getCause().getClass(), kind);
        }
    }

    private void create(String topic, int partitions, Map<String, String> configs) throws Exception {
        admin.createTopics(Set.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
    }

    private KafkaProducer<String, String> producer(Object... more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        for (int i = 0; i < more.length; i += 2) {
            config.put((String) more[i], more[i + 1]);
        }
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(Object... more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false));
        for (int i = 0; i < more.length; i += 2) {
            config.put((String) more[i], more[i + 1]);
        }
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private void write(String topic, int from, int to) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = from; i < to; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, "key-" + i, "value-" + i)));
            }
            for (Future<RecordMetadata> f : sent) {
                f.get();
            }
        }
    }

    /** Polls until there are so many records. */
    private static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> all = new ArrayList<>();
        long end = System.currentTimeMillis() + 30_000;
        while (all.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(Duration.ofMillis(100)).forEach(all::add);
        }
        equal(all.size(), count);
        return all;
    }

    private void autoCreate() throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            equal(producer.send(new ProducerRecord<>("by-itself", "x")).get().offset(), 0L);
        }
        equal(admin.describeTopics(Set.of("by-itself")).allTopicNames().get().get("by-itself").partitions().size(), 1);
    }

    private void tooLarge() throws Exception {
        create("small", 1, Map.of("max.message.bytes", "10000"));
        try (KafkaProducer<String, String> producer = producer()) {
            fails(RecordTooLargeException.class, producer.send(new ProducerRecord<>("small", "x".repeat(20_000))));
            fails(RecordTooLargeException.class, producer.send(new ProducerRecord<>("small", "x".repeat(2_000_000))));
            equal(producer.send(new ProducerRecord<>("small", "x")).get().offset(), 0L);
        }
    }

    /** The producer halves a batch that the broker refuses, and sends the halves. */
    private void split() throws Exception {
        create("halves", 1, Map.of("max.message.bytes", "10000"));
        try (KafkaProducer<String, String> producer = producer("batch.size", 100_000, "linger.ms", 1000)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                sent.add(producer.send(new ProducerRecord<>("halves", i + "x".repeat(1000))));
            }
            for (int i = 0; i < 60; i++) {
                equal(sent.get(i).get().offset(), (long) i);
            }
        }
    }

    private void future() throws Exception {
        create("punctual", 1, Map.of("message.timestamp.after.max.ms", "1000"));
        try (KafkaProducer<String, String> producer = producer()) {
            long tomorrow = System.currentTimeMillis() + 86_400_000;
            fails(InvalidTimestampException.class, producer.send(new ProducerRecord<>("punctual", 0, tomorrow, "k", "v")));
        }
    }

    private void reset() throws Exception {
        create("told", 1, Map.of());
        write("told", 0, 10);
        TopicPartition p = new TopicPartition("told", 0);
        Map<String, Long> want = Map.of("earliest", 0L, "latest", 10L, "by_duration:PT1H", 0L);
        for (String reset : want.keySet()) {
            try (KafkaConsumer<String, String> consumer = consumer("group.id", "told-" + reset.hashCode(), "auto.offset.reset", reset)) {
                consumer.assign(List.of(p));
                equal(consumer.position(p), want.get(reset));
            }
        }
        try (KafkaConsumer<String, String> consumer = consumer("group.id", "told-none", "auto.offset.reset", "none")) {
            consumer.assign(List.of(p));
            consumer.position(p);
            throw new AssertionError("no NoOffsetForPartitionException");
        } catch (NoOffsetForPartitionException e) {
            equal(e.partitions(), Set.of(p));
        }
    }

    private void outOfRange() throws Exception {
        create("gone", 1, Map.of());
        write("gone", 0, 10);
        TopicPartition p = new TopicPartition("gone", 0);
        admin.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(5))).all().get();
        try (KafkaConsumer<String, String> consumer = consumer("auto.offset.reset", "earliest")) {
            consumer.assign(List.of(p));
            consumer.seek(p, 2);
            equal(read(consumer, 5).get(0).offset(), 5L);
        }
        try (KafkaConsumer<String, String> consumer = consumer("auto.offset.reset", "none")) {
            consumer.assign(List.of(p));
            consumer.seek(p, 99);
            consumer.poll(Duration.ofSeconds(10));
            throw new AssertionError("no OffsetOutOfRangeException");
        } catch (org.apache.kafka.clients.consumer.OffsetOutOfRangeException e) {
            equal(e.offsetOutOfRangePartitions(), Map.of(p, 99L));
        }
    }

    /** A topic that comes later is found by its name. */
    private void pattern() throws Exception {
        create("many-a", 1, Map.of());
        write("many-a", 0, 3);
        try (KafkaConsumer<String, String> consumer = consumer("group.id", "many", "auto.offset.reset", "earliest", "metadata.max.age.ms", 200)) {
            consumer.subscribe(Pattern.compile("many-.*"));
            read(consumer, 3);
            consumer.commitSync();
            create("many-b", 1, Map.of());
            write("many-b", 0, 4);
            Set<String> topics = new HashSet<>();
            read(consumer, 4).forEach(r -> topics.add(r.topic()));
            equal(topics, Set.of("many-b"));
        }
    }

    private void metadata() throws Exception {
        create("noted", 1, Map.of());
        TopicPartition p = new TopicPartition("noted", 0);
        OffsetAndMetadata note = new OffsetAndMetadata(7, java.util.Optional.of(0), "so far");
        try (KafkaConsumer<String, String> consumer = consumer("group.id", "notes")) {
            consumer.assign(List.of(p));
            consumer.commitSync(Map.of(p, note));
            equal(consumer.committed(Set.of(p)).get(p), note);
        }
        equal(admin.listConsumerGroupOffsets("notes").partitionsToOffsetAndMetadata().get().get(p), note);
        admin.alterConsumerGroupOffsets("notes", Map.of(p, new OffsetAndMetadata(3))).all().get();
        equal(admin.listConsumerGroupOffsets("notes").partitionsToOffsetAndMetadata().get().get(p).offset(), 3L);
        admin.deleteConsumerGroupOffsets("notes", Set.of(p)).all().get();
        equal(admin.listConsumerGroupOffsets("notes").partitionsToOffsetAndMetadata().get().get(p), null);
    }

    private void readCommitted() throws Exception {
        create("plain", 1, Map.of());
        write("plain", 0, 5);
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", "read_committed")) {
            TopicPartition p = new TopicPartition("plain", 0);
            consumer.assign(List.of(p));
            consumer.seekToBeginning(List.of(p));
            read(consumer, 5);
            equal(consumer.endOffsets(List.of(p)).get(p), 5L);
        }
    }

    private void smallFetches() throws Exception {
        create("wide", 3, Map.of());
        try (KafkaProducer<String, String> producer = producer()) {
            for (int i = 0; i < 30; i++) {
                producer.send(new ProducerRecord<>("wide", i % 3, null, String.valueOf(i), "x".repeat(i * 3000)));
            }
        }
        try (KafkaConsumer<String, String> consumer = consumer("max.partition.fetch.bytes", 1000, "fetch.max.bytes", 2000, "max.poll.records", 2)) {
            List<TopicPartition> all = List.of(new TopicPartition("wide", 0), new TopicPartition("wide", 1), new TopicPartition("wide", 2));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Set<Integer> sizes = new HashSet<>();
            read(consumer, 30).forEach(r -> sizes.add(r.value().length() - Integer.parseInt(r.key()) * 3000));
            equal(sizes, Set.of(0));
        }
    }

    private void listOffsets() throws Exception {
        create("listed", 1, Map.of());
        try (KafkaProducer<String, String> producer = producer()) {
            for (long time : new long[] {1000, 3000, 2000}) {
                producer.send(new ProducerRecord<>("listed", 0, time, "k", "v")).get();
            }
        }
        TopicPartition p = new TopicPartition("listed", 0);
        Map<OffsetSpec, Long> want = Map.of(OffsetSpec.earliest(), 0L, OffsetSpec.latest(), 3L, OffsetSpec.maxTimestamp(), 1L,
            OffsetSpec.forTimestamp(1500), 1L, OffsetSpec.forTimestamp(5000), -1L);
        for (Map.Entry<OffsetSpec, Long> w : want.entrySet()) {
            ListOffsetsResultInfo got = admin.listOffsets(Map.of(p, w.getKey())).partitionResult(p).get();
            equal(got.offset(), w.getValue());
        }
    }

    private void errors() throws Exception {
        create("there", 1, Map.of());
        fails(TopicExistsException.class, admin.createTopics(Set.of(new NewTopic("there", 1, (short) 1))).all());
        fails(InvalidReplicationFactorException.class, admin.createTopics(Set.of(new NewTopic("more", 1, (short) 3))).all());
        fails(InvalidPartitionsException.class, admin.createTopics(Set.of(new NewTopic("none", 0, (short) 1))).all());
        fails(UnknownTopicOrPartitionException.class, admin.deleteTopics(Set.of("nothing")).all());
        fails(UnknownTopicOrPartitionException.class, admin.describeTopics(Set.of("nothing")).allTopicNames());
        fails(GroupIdNotFoundException.class, admin.deleteConsumerGroups(Set.of("nobody")).all());
        fails(OffsetOutOfRangeException.class, admin.deleteRecords(Map.of(new TopicPartition("there", 0), RecordsToDelete.beforeOffset(9))).all());
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "there");
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET);
        fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(topic, List.of(set))).all());
    }
}
