import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** Beyond the common list: what a transaction looks like from its coordinator and from the leaders, and corner cases. */
final class TransactionChecks {
    private TransactionChecks() {}

    static void addTo(Map<String, ClientCheck.Check> checks) {
        checks.put("java-idempotent-produce", TransactionChecks::idempotentProduce);
        checks.put("java-three-transactions-in-sequence", TransactionChecks::sequence);
        checks.put("java-transaction-with-nothing-produced", TransactionChecks::nothingProduced);
        checks.put("java-transaction-over-all-brokers", TransactionChecks::allBrokers);
        checks.put("java-every-compression", TransactionChecks::everyCompression);
        checks.put("java-next-producer-goes-on-after-the-last", TransactionChecks::takeOver);
        checks.put("java-timed-out-transaction-is-aborted", TransactionChecks::timeout);
        checks.put("java-transactions-v2-iff-transaction-version-is-2", TransactionChecks::protocol);
    }

    private static void idempotentProduce(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("idempotent");
        try (KafkaProducer<String, String> producer = lab.producer(Map.of("enable.idempotence", true, "acks", "all"))) {
            for (long offset = 0; offset < 10; offset++) {
                Lab.expect("offset", offset, Lab.send(producer, at, "value-" + offset));
            }
        }
        Lab.expect("records", 10, lab.committed(at).size());
        Lab.expect("records from 7", List.of("value-7", "value-8", "value-9"), lab.read(at, "read_committed", 7));
        Lab.expect("producers", 1, lab.producersOf(at).size());
        Lab.expect("last sequence", 9, lab.producersOf(at).get(0).lastSequence());
    }

    private static void sequence(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("sequence");
        try (KafkaProducer<String, String> producer = lab.transactional(lab.named("sequence"))) {
            for (String value : List.of("first", "second", "third")) {
                producer.beginTransaction();
                Lab.send(producer, at, value);
                producer.commitTransaction();
            }
        }
        Lab.await("all three are visible", () -> lab.committed(at).equals(List.of("first", "second", "third")));
    }

    private static void nothingProduced(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("nothing");
        try (KafkaProducer<String, String> producer = lab.transactional(lab.named("nothing"))) {
            producer.beginTransaction();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.abortTransaction();
            producer.beginTransaction();
            Lab.send(producer, at, "something");
            producer.commitTransaction();
        }
        Lab.await("the record is visible", () -> lab.committed(at).equals(List.of("something")));
    }

    private static void allBrokers(Lab lab) throws Exception {
        Set<Integer> brokers = new HashSet<>();
        lab.admin.describeCluster().nodes().get().forEach(node -> brokers.add(node.id()));
        List<TopicPartition> partitions = lab.newTopic("wide", 2 * brokers.size());
        String topic = partitions.get(0).topic();
        Set<Integer> leaders = new HashSet<>();
        lab.leaders(topic).values().forEach(leader -> leaders.add(leader.id()));
        Lab.expect("brokers that lead a partition", brokers, leaders);
        try (KafkaProducer<String, String> producer = lab.transactional(lab.named("wide"))) {
            producer.beginTransaction();
            for (TopicPartition at : partitions) {
                Lab.send(producer, at, "aborted");
            }
            producer.abortTransaction();
            producer.beginTransaction();
            for (TopicPartition at : partitions) {
                Lab.send(producer, at, "committed");
            }
            Lab.expect(
                    "partitions of the transaction",
                    Set.copyOf(partitions),
                    lab.describe(lab.named("wide")).topicPartitions());
            producer.commitTransaction();
        }
        for (TopicPartition at : partitions) {
            Lab.await(at + " shows the commit alone", () -> lab.committed(at).equals(List.of("committed")));
            Lab.expect("read_uncommitted", List.of("aborted", "committed"), lab.uncommitted(at));
        }
    }

    private static void everyCompression(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("compression");
        List<String> sent = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String id = lab.named("compression-" + codec);
            try (KafkaProducer<String, String> producer = lab.transactional(id, Map.of("compression.type", codec))) {
                producer.beginTransaction();
                Lab.send(producer, at, codec.repeat(100));
                producer.commitTransaction();
                sent.add(codec.repeat(100));
            }
        }
        Lab.await("all are visible", () -> lab.committed(at).equals(sent));
    }

    private static void takeOver(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("take-over");
        String id = lab.named("take-over");
        for (String value : List.of("of the last", "of the next")) {
            try (KafkaProducer<String, String> producer = lab.transactional(id)) {
                producer.beginTransaction();
                Lab.send(producer, at, value);
                producer.commitTransaction();
            }
        }
        Lab.await("both are visible", () -> lab.committed(at).equals(List.of("of the last", "of the next")));
    }

    private static void timeout(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("timeout");
        String id = lab.named("timeout");
        Duration timeout = Duration.ofSeconds(3);
        Map<String, Object> short_ = Map.of("transaction.timeout.ms", (int) timeout.toMillis());
        try (KafkaProducer<String, String> producer = lab.transactional(id, short_)) {
            long begun = System.nanoTime();
            producer.beginTransaction();
            Lab.send(producer, at, "too slow");
            TransactionState early = lab.describe(id).state();
            boolean due = System.nanoTime() - begun >= timeout.toNanos(); // on a slow machine it may be by now
            Lab.expect("is open before the timeout", true, early == TransactionState.ONGOING || due);
            Lab.await(
                    "the coordinator aborts",
                    timeout.plus(Lab.PATIENCE),
                    () -> lab.describe(id).state() == TransactionState.COMPLETE_ABORT);
            Lab.expectThrown("commit after the timeout", CoreChecks.toldOfTimeout(lab), producer::commitTransaction);
        }
        Lab.expect("read_committed", List.of(), lab.committed(at));
        Lab.expect("read_uncommitted", List.of("too slow"), lab.uncommitted(at));
    }

    /** Transactions v2 raise the producer's epoch with every transaction, the old flow does not (KIP-890). */
    private static void protocol(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("protocol");
        String id = lab.named("protocol");
        List<Integer> epochs = new ArrayList<>();
        try (KafkaProducer<String, String> producer = lab.transactional(id)) {
            epochs.add(lab.describe(id).producerEpoch());
            for (int round = 0; round < 3; round++) {
                producer.beginTransaction();
                Lab.send(producer, at, "round-" + round);
                epochs.add(lab.producersOf(at).get(0).producerEpoch()); // the epoch that the records carry
                producer.commitTransaction();
            }
        }
        int first = epochs.get(0);
        int step = CoreChecks.transactionsV2(lab) ? 1 : 0;
        Lab.expect(
                "epochs at initTransactions and in three transactions",
                List.of(first, first, first + step, first + 2 * step),
                epochs);
    }
}
