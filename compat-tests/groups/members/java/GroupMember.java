import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** A member of a group that reads with Kafka's own consumer (see package groups). */
public final class GroupMember {

    /** Prints the partitions each time they change. */
    private static final class Owned implements ConsumerRebalanceListener {
        private final TreeSet<Integer> have = new TreeSet<>();

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            added.forEach(p -> have.add(p.partition()));
            print();
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> gone) {
            gone.forEach(p -> have.remove(p.partition()));
            print();
        }

        private void print() {
            System.out.println("assigned " + have.stream().map(String::valueOf).collect(Collectors.joining(",")));
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) {
            String[] pair = arg.substring(2).split("=", 2);
            options.put(pair[0], pair[1]);
        }
        Properties config = new Properties();
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("client.id", options.get("name"));
        config.put("group.id", options.get("group"));
        config.put("session.timeout.ms", options.get("session-ms"));
        config.put("heartbeat.interval.ms", "1000");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        config.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        if (!options.get("instance").isEmpty()) {
            config.put("group.instance.id", options.get("instance"));
        }
        if (options.containsKey("assignor")) {
            config.put("partition.assignment.strategy", options.get("assignor"));
        }
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config);
        CountDownLatch left = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                left.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            consumer.subscribe(List.of(options.get("topic")), new Owned());
            while (true) {
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("record " + r.partition() + " " + r.offset() + " " + r.value());
                }
                commit(consumer);
            }
        } catch (WakeupException e) {
            commit(consumer);
        } finally {
            consumer.close();
            left.countDown();
        }
    }

    /** A commit that fails is made again by the next one, or belongs to the next owner. */
    private static void commit(KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
        } catch (WakeupException e) {
            throw e;
        } catch (RuntimeException e) {
            System.out.println("commit " + e);
        }
    }
}
