import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Kafka's producer with its defaults: arguments are bootstrap servers, topic, partitions and
 * records a second, each to the next partition. It prints partition, time of sending and time
 * of acknowledgement, in ms, of each record that waited for 20 ms or more.
 */
public final class SteadyProducer {

    private static final long PRINTED_MS = 20;

    public static void main(String[] args) throws InterruptedException {
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        long perSecond = Long.parseLong(args[3]);
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        byte[] value = new byte[100];
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            long begin = System.nanoTime();
            for (long i = 0; ; i++) {
                long early = begin + i * 1_000_000_000L / perSecond - System.nanoTime();
                if (early > 1_000_000) {
                    Thread.sleep(early / 1_000_000);
                }
                int partition = (int) (i % partitions);
                long sent = System.currentTimeMillis();
                producer.send(new ProducerRecord<>(topic, partition, null, value), (at, error) -> {
                    long acked = System.currentTimeMillis();
                    if (error != null) {
                        System.out.println("failed " + partition + " " + error);
                    } else if (acked - sent >= PRINTED_MS) {
                        System.out.println("waited " + partition + " " + sent + " " + acked);
                    }
                });
            }
        }
    }
}
