import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Shows what Kafka's own client does (see package matrix). */
public final class JavaClient {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;

    private JavaClient(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** What makes maps without names of a class for each line. */
    private static Map<String, Object> line(Object... pairs) {
        Map<String, Object> line = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            line.put((String) pairs[i], pairs[i + 1]);
        }
        return line;
    }

    private static void say(Object... pairs) throws Exception {
        System.out.println(JSON.writeValueAsString(line(pairs)));
    }

    public static void main(String[] args) throws Exception {
        JavaClient client = new JavaClient(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String command = in.readLine(); command != null; command = in.readLine()) {
            try {
                client.carryOut(JSON.readTree(command));
                say("done", true);
            } catch (Exception e) { // whatever it is, it is this command's answer
                say("error", e.toString());
            }
        }
    }

    private void carryOut(JsonNode c) throws Exception {
        switch (c.get("do").asText()) {
            case "produce" -> produce(c);
            case "consume" -> consume(c);
            case "group" -> group(c);
            default -> {
                try (Admin admin = Admin.create(config())) {
                    Object result = administer(admin, c);
                    if (result != null) {
                        say("result", result);
                    }
                }
            }
        }
    }

    private Map<String, Object> config() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap));
    }

    private static String text(JsonNode value) {
        return value == null || value.isNull() ? null : value.asText();
    }

    private void produce(JsonNode c) throws Exception {
        Map<String, Object> config = config();
        if (c.has("acks")) {
            config.put("acks", c.get("acks").asText());
        }
        if (c.has("codec")) {
            config.put("compression.type", c.get("codec").asText());
        }
        if (c.has("idempotent")) {
            config.put("enable.idempotence", true);
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            for (JsonNode r : c.get("records")) {
                Long time = r.has("time") ? r.get("time").asLong() : null;
                var record = new ProducerRecord<>(c.get("topic").asText(), null, time, text(r.get("key")), text(r.get("value")));
                if (r.has("headers")) {
                    r.get("headers").fields().forEachRemaining(
                        h -> record.headers().add(h.getKey(), h.getValue().asText().getBytes(StandardCharsets.UTF_8)));
                }
                sent.add(producer.send(record));
            }
            for (int i = 0; i < sent.size(); i++) {
                RecordMetadata written = sent.get(i).get();
                if (written.hasOffset()) {
                    say("acked", line("index", i, "partition", written.partition(), "offset", written.offset()));
                }
            }
        }
    }

    private KafkaConsumer<String, String> consumer(Map<String, Object> config) {
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** Reads so many records; a poll may give more, which are left out of what is returned. */
    private static Map<TopicPartition, OffsetAndMetadata> read(KafkaConsumer<String, String> consumer, int count) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        while (count > 0) {
            for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                if (count-- <= 0) {
                    break;
                }
                Map<String, Object> headers = new HashMap<>();
                for (Header h : r.headers()) {
                    headers.put(h.key(), new String(h.value(), StandardCharsets.UTF_8));
                }
                say("record", line("partition", r.partition(), "offset", r.offset(), "time", r.timestamp(),
                    "key", r.key(), "value", r.value(), "headers", headers));
                next.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
            }
        }
        return next;
    }

    private void consume(JsonNode c) throws Exception {
        Map<String, Object> config = config();
        if (c.has("rack")) {
            config.put("client.rack", c.get("rack").asText());
        }
        try (KafkaConsumer<String, String> consumer = consumer(config)) {
            List<TopicPartition> partitions = IntStream.range(0, c.get("partitions").asInt())
                .mapToObj(p -> new TopicPartition(c.get("topic").asText(), p)).toList();
            consumer.assign(partitions);
            switch (c.get("from").asText()) {
                case "start" -> consumer.seekToBeginning(partitions);
                case "end" -> consumer.seekToEnd(partitions);
                default -> consumer.offsetsForTimes(partitions.stream().collect(Collectors.toMap(p -> p, p -> c.get("from").asLong())))
                    .forEach((p, found) -> consumer.seek(p, found.offset()));
            }
            read(consumer, c.get("count").asInt());
        }
    }

    private void group(JsonNode c) throws Exception {
        Map<String, Object> config = config();
        config.put("group.id", c.get("group").asText());
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer = consumer(config)) {
            consumer.subscribe(List.of(c.get("topic").asText()));
            consumer.commitSync(read(consumer, c.get("count").asInt()));
        }
    }

    /** Does what a command asks for, and returns the answer to a question. */
    private static Object administer(Admin admin, JsonNode c) throws Exception {
        String topic = text(c.get("topic"));
        String group = text(c.get("group"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic == null ? "" : topic);
        switch (c.get("do").asText()) {
            case "create-topic" -> admin.createTopics(Set.of(new NewTopic(topic, c.get("partitions").asInt(), (short) 1).configs(configs(c)))).all().get();
            case "delete-topic" -> admin.deleteTopics(Set.of(topic)).all().get();
            case "create-partitions" -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(c.get("partitions").asInt()))).all().get();
            case "delete-records" -> admin.deleteRecords(
                Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(c.get("offset").asLong()))).all().get();
            case "alter-configs" -> admin.incrementalAlterConfigs(Map.of(resource, changes(c))).all().get();
            case "delete-group" -> admin.deleteConsumerGroups(Set.of(group)).all().get();
            case "describe-configs" -> {
                Config found = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
                Map<String, String> values = new HashMap<>();
                found.entries().forEach(e -> values.put(e.name(), e.value()));
                return values;
            }
            case "list-topics" -> {
                return admin.listTopics().names().get();
            }
            case "describe-topic" -> {
                return admin.describeTopics(Set.of(topic)).allTopicNames().get().get(topic).partitions().size();
            }
            case "list-groups" -> {
                return admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
            }
            case "describe-group" -> {
                return admin.describeConsumerGroups(Set.of(group)).all().get().get(group).groupState().toString();
            }
            case "group-offsets" -> {
                Map<String, Long> offsets = new HashMap<>();
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                    .forEach((p, o) -> offsets.put(String.valueOf(p.partition()), o.offset()));
                return offsets;
            }
            default -> throw new IllegalArgumentException("there is no command " + c.get("do"));
        }
        return null;
    }

    private static Map<String, String> configs(JsonNode c) {
        return StreamSupport.stream(((Iterable<Map.Entry<String, JsonNode>>) () -> c.get("configs").fields()).spliterator(), false)
            .collect(Collectors.toMap(Map.Entry::getKey, e -> e.getValue().asText()));
    }

    private static Collection<AlterConfigOp> changes(JsonNode c) {
        return configs(c).entrySet().stream()
            .map(e -> new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue()), AlterConfigOp.OpType.SET)).toList();
    }
}
