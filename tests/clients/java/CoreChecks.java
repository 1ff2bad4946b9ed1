import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;

/** The common list of all clients: producers, and readers without a group. */
final class CoreChecks {
    private static final int BATCHES = 3;
    private static final int RECORDS_PER_BATCH = 5;

    private CoreChecks() {}

    static void addTo(Map<String, ClientCheck.Check> checks) {
        checks.put("produce", CoreChecks::produce);
        checks.put("idempotent", CoreChecks::idempotent);
        checks.put("commit", CoreChecks::commit);
        checks.put("abort", CoreChecks::abort);
        checks.put("read-committed", CoreChecks::readCommitted);
        checks.put("fence", CoreChecks::fence);
        checks.put("timeout", CoreChecks::timeout);
    }

    /** KIP-890's second part: the cluster allows it, and this client speaks it. */
    static boolean transactionsV2(Lab lab) {
        return lab.transactionVersion >= 2 && VersionChecks.SPEAKS_TRANSACTIONS_V2;
    }

    /**
     * How a producer is told that the coordinator has aborted its transaction. That raised the epoch: in the old flow the
     * producer is fenced. Under transactions v2 a commit with the epoch before it is an answer to a transaction that is no
     * longer there.
     */
    static Class<? extends KafkaException> toldOfTimeout(Lab lab) {
        return transactionsV2(lab) ? InvalidTxnStateException.class : ProducerFencedException.class;
    }

    private static void produce(Lab lab) throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            TopicPartition at = lab.newTopic("produce-" + codec);
            Map<String, Object> config =
                    Map.of("acks", "all", "enable.idempotence", false, "compression.type", codec, "linger.ms", 20);
            try (KafkaProducer<String, String> producer = lab.producer(config)) {
                List<ProducerRecord<String, String>> sent = new ArrayList<>();
                for (int batch = 0; batch < BATCHES; batch++) {
                    List<ProducerRecord<String, String>> records = batchOf(at, batch);
                    expectOffsets(sent.size(), sendAll(producer, records));
                    sent.addAll(records);
                }
                expectSame(sent, lab.records(at, "read_committed", 0));
            }
        }
    }

    private static List<ProducerRecord<String, String>> batchOf(TopicPartition at, int batch) {
        long start = System.currentTimeMillis() - 60_000;
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int i = 0; i < RECORDS_PER_BATCH; i++) {
            List<Header> headers =
                    List.of(
                            new RecordHeader("batch", Integer.toString(batch).getBytes(StandardCharsets.UTF_8)),
                            new RecordHeader("nothing", null),
                            new RecordHeader("batch", new byte[] {(byte) 0xff, 0, (byte) i}));
            String value = ("value-" + batch + "-" + i).repeat(20);
            records.add(
                    new ProducerRecord<>(
                            at.topic(), at.partition(), start + i, i == 0 ? null : "key-ä-" + i, value, headers));
        }
        return records;
    }

    /** Send them together and wait for all; their offsets. */
    private static List<Long> sendAll(KafkaProducer<String, String> producer, List<ProducerRecord<String, String>> records)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (ProducerRecord<String, String> record : records) {
            sent.add(producer.send(record));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
        return offsets;
    }

    private static void expectOffsets(long first, List<Long> offsets) {
        for (int i = 0; i < offsets.size(); i++) {
            Lab.expect("offset", first + i, offsets.get(i));
        }
    }

    private static void expectSame(
            List<ProducerRecord<String, String>> sent, List<ConsumerRecord<String, String>> found) {
        Lab.expect("records", sent.size(), found.size());
        for (int i = 0; i < sent.size(); i++) {
            ProducerRecord<String, String> one = sent.get(i);
            ConsumerRecord<String, String> other = found.get(i);
            Lab.expect("offset", (long) i, other.offset());
            Lab.expect("key", String.valueOf(one.key()), String.valueOf(other.key()));
            Lab.expect("value", one.value(), other.value());
            Lab.expect("headers", one.headers(), other.headers());
            Lab.expect("timestamp", one.timestamp(), other.timestamp());
            Lab.expect("timestamp type", TimestampType.CREATE_TIME, other.timestampType());
        }
    }

    private static void idempotent(Lab lab) throws Exception {
        List<TopicPartition> partitions = lab.newTopic("idempotent-list", 3);
        Map<String, Object> config = Map.of("enable.idempotence", true, "acks", "all", "linger.ms", 20);
        try (KafkaProducer<String, String> producer = lab.producer(config)) {
            for (int batch = 0; batch < BATCHES; batch++) {
                List<ProducerRecord<String, String>> records = new ArrayList<>();
                for (TopicPartition at : partitions) {
                    records.addAll(batchOf(at, batch));
                }
                List<Long> offsets = sendAll(producer, records);
                for (int at = 0; at < partitions.size(); at++) {
                    int from = at * RECORDS_PER_BATCH;
                    expectOffsets((long) batch * RECORDS_PER_BATCH, offsets.subList(from, from + RECORDS_PER_BATCH));
                }
            }
        }
        for (TopicPartition at : partitions) {
            List<String> values = lab.committed(at);
            Lab.expect("records", BATCHES * RECORDS_PER_BATCH, values.size());
            Lab.expect("different ones", values.size(), Set.copyOf(values).size());
        }
    }

    private static void commit(Lab lab) throws Exception {
        Set<Integer> brokers = new HashSet<>();
        lab.admin.describeCluster().nodes().get().forEach(node -> brokers.add(node.id()));
        List<TopicPartition> partitions = lab.newTopic("commit", 2 * brokers.size());
        Set<Integer> leaders = new HashSet<>();
        lab.leaders(partitions.get(0).topic()).values().forEach(leader -> leaders.add(leader.id()));
        Lab.expect("brokers that lead a partition", brokers, leaders);
        List<String> expected = new ArrayList<>();
        try (KafkaProducer<String, String> producer = lab.transactional(lab.named("commit"))) {
            for (String transaction : List.of("first", "second")) {
                producer.beginTransaction();
                for (TopicPartition at : partitions) {
                    Lab.send(producer, at, transaction);
                }
                for (TopicPartition at : partitions) {
                    Lab.expect("read_committed before the commit", expected, lab.committed(at));
                }
                producer.commitTransaction();
                expected.add(transaction);
                for (TopicPartition at : partitions) {
                    Lab.await(at + " shows all of it", () -> lab.committed(at).equals(expected));
                    Lab.expect("read_uncommitted", expected, lab.uncommitted(at));
                }
            }
        }
    }

    private static void abort(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("abort");
        try (KafkaProducer<String, String> producer = lab.transactional(lab.named("abort"))) {
            producer.beginTransaction();
            Lab.send(producer, at, "aborted");
            producer.abortTransaction();
            producer.beginTransaction();
            Lab.send(producer, at, "committed");
            producer.commitTransaction();
        }
        Lab.await("read_committed sees the later transaction", () -> !lab.committed(at).isEmpty());
        Lab.expect("read_committed", List.of("committed"), lab.committed(at));
        Lab.expect("read_uncommitted", List.of("aborted", "committed"), lab.uncommitted(at));
    }

    private static void readCommitted(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("open");
        try (KafkaProducer<String, String> plain = lab.producer(Map.of());
                KafkaProducer<String, String> producer = lab.transactional(lab.named("open"))) {
            Lab.send(plain, at, "before");
            producer.beginTransaction();
            Lab.send(producer, at, "open");
            Lab.send(plain, at, "after");
            Lab.expect("read_committed while open", List.of("before"), lab.committed(at));
            Lab.expect("read_uncommitted while open", List.of("before", "open", "after"), lab.uncommitted(at));
            producer.commitTransaction();
            Lab.await(
                    "read_committed goes on after the commit",
                    () -> lab.committed(at).equals(List.of("before", "open", "after")));
        }
    }

    private static void fence(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("fence");
        String id = lab.named("fence");
        try (KafkaProducer<String, String> first = lab.transactional(id)) {
            first.beginTransaction();
            Lab.send(first, at, "of the fenced");
            try (KafkaProducer<String, String> second = lab.transactional(id)) {
                Lab.expectThrown("commit of the fenced", ProducerFencedException.class, first::commitTransaction);
                second.beginTransaction();
                Lab.send(second, at, "of the second");
                second.commitTransaction();
            }
        }
        Lab.await("the second commits", () -> lab.committed(at).equals(List.of("of the second")));
        Lab.expect("read_uncommitted", List.of("of the fenced", "of the second"), lab.uncommitted(at));
    }

    private static void timeout(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("timeout-list");
        String id = lab.named("timeout-list");
        Duration timeout = Duration.ofSeconds(3);
        Map<String, Object> impatient = Map.of("transaction.timeout.ms", (int) timeout.toMillis());
        try (KafkaProducer<String, String> plain = lab.producer(Map.of());
                KafkaProducer<String, String> producer = lab.transactional(id, impatient)) {
            long begun = System.nanoTime();
            producer.beginTransaction();
            Lab.send(producer, at, "too slow");
            Lab.send(plain, at, "behind it");
            boolean heldBack = lab.committed(at).isEmpty();
            boolean due = System.nanoTime() - begun >= timeout.toNanos(); // on a slow machine it may be by now
            Lab.expect("is held back before the timeout", true, heldBack || due);
            Lab.await("the cluster aborts", () -> lab.committed(at).equals(List.of("behind it")));
            Lab.expectThrown("commit after the timeout", toldOfTimeout(lab), producer::commitTransaction);
        }
        Lab.expect("read_uncommitted", List.of("too slow", "behind it"), lab.uncommitted(at));
        try (KafkaProducer<String, String> next = lab.transactional(id)) {
            next.beginTransaction();
            Lab.send(next, at, "of the next");
            next.commitTransaction();
        }
        Lab.await("the next one goes on", () -> lab.committed(at).equals(List.of("behind it", "of the next")));
    }
}
