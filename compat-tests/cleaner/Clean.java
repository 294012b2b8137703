import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Stream;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AbortedTxn;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.CleanedTransactionMetadata;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LastRecord;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.OffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * Cleans the logs that come on stdin, one after the other, with Kafka's Cleaner, and writes
 * what is left of each to stdout. The format is that of cleaner_test.go. The argument is a
 * directory for files.
 */
public class Clean {
    static final int BUFFER = 1 << 20;
    static final TopicPartition PARTITION = new TopicPartition("topic", 0);

    final DataInputStream in;
    final DataOutputStream out;
    final Path dir;

    Clean(DataInputStream in, DataOutputStream out, Path dir) {
        this.in = in;
        this.out = out;
        this.dir = dir;
    }

    public static void main(String[] args) throws Exception {
        PrintStream stdout = System.out;
        System.setOut(System.err); // the logger's lines are not the answer
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(stdout));
        Path dir = Path.of(args[0]);
        int count = in.readInt();
        for (int i = 0; i < count; i++) {
            Path own = Files.createDirectory(dir.resolve("case-" + i));
            new Clean(in, out, own).run();
            try (Stream<Path> files = Files.walk(own)) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
        out.flush();
    }

    /** What a log of one case is. */
    record Segment(long base, long next, LogSegment log, List<AbortedTxn> aborted) { }

    void run() throws Exception {
        List<Segment> segments = readSegments();
        long firstDirty = in.readLong();
        int keys = in.readInt();
        long now = in.readLong();
        long retentionMs = in.readLong();
        long highWatermark = in.readLong();
        List<AbortedTxn> dirtyTxns = readAborted();
        Map<Long, LastRecord> producers = readProducers();

        Keys map = new Keys(2 * keys); // half of which may be taken
        Cleaner cleaner = new Cleaner(0, map, BUFFER, BUFFER, 0.5,
            new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", Time.SYSTEM), Time.SYSTEM, tp -> { });
        CleanerStats stats = new CleanerStats(Time.SYSTEM);
        LogSegment dest = open(segments.get(0).base, ".cleaned");
        CleanedTransactionMetadata txns = new CleanedTransactionMetadata();
        txns.setCleanedIndex(Optional.of(dest.txnIndex()));
        index(cleaner, segments, firstDirty, map, dirtyTxns, stats);
        for (Segment s : segments) {
            if (s.base <= map.latestOffset()) {
                txns.addAbortedTransactions(s.aborted);
                call(cleaner, "cleanInto", PARTITION, s.log.log(), dest, map, false, retentionMs, BUFFER, txns,
                    producers, highWatermark, stats, now, BUFFER);
            }
        }
        write(map, dest, stats);
        dest.close();
        for (Segment s : segments)
            s.log.close();
    }

    void index(Cleaner cleaner, List<Segment> segments, long firstDirty, Keys map, List<AbortedTxn> aborted,
               CleanerStats stats) throws Exception {
        CleanedTransactionMetadata txns = new CleanedTransactionMetadata();
        txns.addAbortedTransactions(aborted);
        for (Segment s : segments) {
            if (s.next > firstDirty && (boolean) call(cleaner, "buildOffsetMapForSegment",
                    PARTITION, s.log, map, firstDirty, s.next, BUFFER, txns, stats, BUFFER))
                return;
        }
    }

    void write(Keys map, LogSegment dest, CleanerStats stats) throws IOException {
        out.writeLong(map.latestOffset());
        FileRecords log = dest.log();
        ByteBuffer bytes = ByteBuffer.allocate(log.sizeInBytes());
        log.readInto(bytes, 0);
        out.writeInt(bytes.limit());
        out.write(bytes.array(), 0, bytes.limit());
        List<AbortedTxn> aborted = dest.collectAbortedTxns(0, Long.MAX_VALUE).abortedTransactions();
        out.writeInt(aborted.size());
        for (AbortedTxn t : aborted) {
            out.writeLong(t.producerId());
            out.writeLong(t.firstOffset());
            out.writeLong(t.lastOffset());
            out.writeLong(t.lastStableOffset());
        }
        for (long n : new long[] {stats.mapMessagesRead(), stats.messagesRead(), stats.bytesRead(),
            stats.messagesWritten(), stats.bytesWritten(), stats.invalidMessagesRead()})
            out.writeLong(n);
    }

    List<Segment> readSegments() throws IOException {
        List<Segment> segments = new ArrayList<>();
        for (int n = in.readInt(); n > 0; n--) {
            long base = in.readLong();
            long next = in.readLong();
            byte[] bytes = in.readNBytes(in.readInt());
            LogSegment log = open(base, "");
            log.log().append(MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)));
            segments.add(new Segment(base, next, log, readAborted()));
        }
        return segments;
    }

    LogSegment open(long base, String suffix) throws IOException {
        LogConfig config = new LogConfig(Map.of("segment.index.bytes", 4096));
        return LogSegment.open(dir.toFile(), base, config, Time.SYSTEM, false, 0, false, suffix);
    }

    List<AbortedTxn> readAborted() throws IOException {
        List<AbortedTxn> txns = new ArrayList<>();
        for (int n = in.readInt(); n > 0; n--)
            txns.add(new AbortedTxn().setProducerId(in.readLong()).setFirstOffset(in.readLong())
                .setLastOffset(in.readLong()).setLastStableOffset(in.readLong()));
        return txns;
    }

    Map<Long, LastRecord> readProducers() throws IOException {
        Map<Long, LastRecord> producers = new HashMap<>();
        for (int n = in.readInt(); n > 0; n--) {
            long id = in.readLong();
            long last = in.readLong();
            producers.put(id, new LastRecord(last < 0 ? OptionalLong.empty() : OptionalLong.of(last), in.readShort()));
        }
        return producers;
    }

    static Object call(Cleaner cleaner, String name, Object... args) throws Exception {
        for (Method m : Cleaner.class.getDeclaredMethods()) {
            if (m.getName().equals(name)) {
                m.setAccessible(true);
                try {
                    return m.invoke(cleaner, args);
                } catch (InvocationTargetException e) {
                    throw new IllegalStateException(name, e.getCause());
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    /** An offset map that knows keys themselves. */
    static class Keys implements OffsetMap {
        private final Map<ByteBuffer, Long> offsets = new HashMap<>();
        private final int slots;
        private long latest = -1;

        Keys(int slots) {
            this.slots = slots;
        }

        public int slots() {
            return slots;
        }

        public void put(ByteBuffer key, long offset) {
            byte[] copy = new byte[key.remaining()];
            key.duplicate().get(copy);
            offsets.put(ByteBuffer.wrap(copy), offset);
            latest = offset;
        }

        public long get(ByteBuffer key) {
            return offsets.getOrDefault(key, -1L);
        }

        public void updateLatestOffset(long offset) {
            latest = offset;
        }

        public void clear() {
            offsets.clear();
            latest = -1;
        }

        public int size() {
            return offsets.size();
        }

        public long latestOffset() {
            return latest;
        }
    }
}
