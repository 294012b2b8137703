import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes numbers to a topic with the producer's defaults, at a steady pace. Arguments: the
 * address of a broker, topic, how many, how many a second. It tells after each thousand
 * how many are acknowledged, and at the end how many have failed.
 */
public final class Steady {
    public static void main(String[] args) throws InterruptedException {
        int count = Integer.parseInt(args[2]);
        int pace = Integer.parseInt(args[3]);
        AtomicInteger acked = new AtomicInteger();
        AtomicInteger failed = new AtomicInteger();
        long begin = System.nanoTime();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(Map.of("bootstrap.servers", args[0]), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                long early = (begin + i * 1_000_000_000L / pace - System.nanoTime()) / 1_000_000;
                if (early > 0) {
                    Thread.sleep(early);
                }
                producer.send(new ProducerRecord<>(args[1], String.valueOf(i % 50), String.valueOf(i)), (written, e) -> {
                    if (e != null) {
                        failed.incrementAndGet();
                        System.out.println("failed " + e);
                    } else if (acked.incrementAndGet() % 1000 == 0) {
                        System.out.println("acked " + acked.get());
                    }
                });
            }
        }
        System.out.println("done, acked " + acked.get() + ", failed " + failed.get());
    }
}
