import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A producer with Kafka's own client (see package chaos). */
public final class ChaosProducer {

    public static void main(String[] args) throws InterruptedException {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) {
            String[] pair = arg.substring(2).split("=", 2);
            options.put(pair[0], pair[1]);
        }
        String topic = options.get("topic");
        String name = options.get("name");
        int partitions = Integer.parseInt(options.get("partitions"));
        long pace = Long.parseLong(options.get("pace-ms"));
        Properties config = new Properties();
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("client.id", name);
        config.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        AtomicBoolean leaving = new AtomicBoolean();
        CountDownLatch left = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            leaving.set(true);
            try {
                left.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            for (int i = 0; !leaving.get(); i++) {
                int n = i;
                producer.send(new ProducerRecord<>(topic, n % partitions, null, name + "-" + n), (at, error) -> {
                    if (error != null) {
                        System.out.println("failed " + n + " " + error);
                    } else {
                        System.out.println("acked " + n + " " + at.partition() + " " + at.offset());
                    }
                });
                Thread.sleep(pace);
            }
            producer.flush();
        }
        System.out.flush();
        left.countDown();
    }
}
