import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.streams.KafkaStreams;

/** The core of the matrix, as far as an application of Kafka Streams meets it. */
final class TransactionChecks {
    private TransactionChecks() {}

    static void addTo(Map<String, StreamsCheck.Check> checks) {
        checks.put("commit", TransactionChecks::commit);
        checks.put("abort", TransactionChecks::abort);
        checks.put("read-committed", TransactionChecks::readCommitted);
        checks.put("timeout", TransactionChecks::timeout);
        checks.put("transform", TransactionChecks::transform);
        checks.put("rebalance", TransactionChecks::rebalance);
    }

    /** Outputs and positions appear with the commit and not before, transaction after transaction. */
    private static void commit(StreamsLab lab) throws Exception {
        lab.start(new Passing().topology(lab), lab.settingsWithoutCommits());
        for (int round = 1; round <= 3; round++) {
            List<String> before = lab.values(true);
            List<Long> positions = lab.positions();
            for (int partition = 0; partition < StreamsLab.PARTITIONS; partition++) {
                lab.feed(partition, "value-" + round + "-" + partition);
            }
            int written = round * (StreamsLab.PARTITIONS + 1) - 1;
            StreamsLab.await("all is written", () -> lab.values(false).size() == written);
            StreamsLab.expectEqual("committed before the commit", before, lab.values(true));
            StreamsLab.expectEqual("positions before the commit", positions, lab.positions());
            lab.feed(round % StreamsLab.PARTITIONS, "commit-" + round);
            StreamsLab.await("all is committed", () -> lab.values(true).size() == written + 1);
        }
        StreamsLab.expectEqual("positions", List.of(3L, 4L, 4L, 4L), lab.positions());
    }

    /** What a failing thread has written is aborted, positions stay; its work is done again by the next one. */
    private static void abort(StreamsLab lab) throws Exception {
        lab.start(new Passing().topology(lab), lab.settingsWithoutCommits());
        lab.feed(0, "first", "commit-first");
        StreamsLab.await("the first transaction", () -> lab.values(true).size() == 2);
        lab.feed(0, "again", "fail");
        StreamsLab.await("both attempts are written", () -> lab.values(false).size() == 6);
        StreamsLab.expectEqual("committed", List.of("commit-first", "first"), lab.values(true));
        StreamsLab.expectEqual("positions", List.of(2L, 0L, 0L, 0L), lab.positions());
        lab.feed(0, "commit-second");
        List<String> all = List.of("again", "commit-first", "commit-second", "fail", "first");
        StreamsLab.await("the second transaction", () -> lab.values(true).size() == all.size());
        StreamsLab.expectEqual("committed", all, lab.values(true));
        StreamsLab.expectEqual("positions", List.of(5L, 0L, 0L, 0L), lab.positions());
    }

    /** The application waits at an open transaction of its input, never sees an aborted one. */
    private static void readCommitted(StreamsLab lab) throws Exception {
        lab.start(new Passing().topology(lab), lab.settings());
        lab.feed(0, "before");
        StreamsLab.await("what is before the transaction", () -> lab.values(true).equals(List.of("before")));
        try (KafkaProducer<String, String> upstream =
                lab.producer(Map.of("transactional.id", lab.application + "-upstream"))) {
            upstream.initTransactions();
            upstream.beginTransaction();
            upstream.send(new ProducerRecord<>(lab.input, 0, "key", "aborted")).get();
            lab.feed(0, "behind");
            lab.feed(1, "beside");
            StreamsLab.await("another partition", () -> lab.values(true).contains("beside"));
            StreamsLab.expectEqual("outputs", List.of("before", "beside"), lab.values(false));
            upstream.abortTransaction();
            StreamsLab.await("what is behind it", () -> lab.values(true).size() == 3);
            upstream.beginTransaction();
            upstream.send(new ProducerRecord<>(lab.input, 0, "key", "committed")).get();
            upstream.commitTransaction();
        }
        StreamsLab.await("the committed one", () -> lab.values(true).size() == 4);
        StreamsLab.expectEqual("outputs", List.of("before", "behind", "beside", "committed"), lab.values(false));
    }

    /** A thread that stalls for longer than its transaction may last loses it, and does its work again. */
    private static void timeout(StreamsLab lab) throws Exception {
        Properties settings = lab.settings();
        settings.put("commit.interval.ms", "500");
        settings.put("producer.transaction.timeout.ms", "1500");
        Passing passing = new Passing();
        lab.start(passing.topology(lab), settings);
        lab.feed(0, "first");
        StreamsLab.await("the first transaction", () -> lab.values(true).size() == 1);
        lab.feed(0, "stall");
        passing.awaitStalled("stall");
        // Forwarded records are sent by another thread: the transaction begins, though its owner stalls.
        StreamsLab.await("what it wrote is aborted", () -> lab.values(false).contains("stall")
                && lab.transactions().stream().anyMatch(one -> one.state() == TransactionState.COMPLETE_ABORT));
        StreamsLab.expectEqual("committed", List.of("first"), lab.values(true));
        passing.release("stall");
        lab.feed(0, "last");
        StreamsLab.await("all is committed", () -> lab.values(true).size() == 3);
        StreamsLab.expectEqual("committed", List.of("first", "last", "stall"), lab.values(true));
        StreamsLab.await("positions", () -> lab.positions().equals(List.of(3L, 0L, 0L, 0L)));
    }

    /** Each input comes out once, though a transaction in the middle fails; positions are the ends. */
    private static void transform(StreamsLab lab) throws Exception {
        lab.start(new Passing().topology(lab), lab.settings());
        TreeSet<String> fed = new TreeSet<>();
        for (int round = 0; round < 20; round++) {
            for (int partition = 0; partition < StreamsLab.PARTITIONS; partition++) {
                String word = round == 9 && partition == 2 ? "fail" : "value";
                String value = String.format("%s-%02d-%d", word, round, partition);
                fed.add(value);
                lab.feed(partition, value);
            }
        }
        lab.awaitCounts(fed.size());
        StreamsLab.expectEqual("outputs", new ArrayList<>(fed), lab.values(true));
        StreamsLab.await("positions", () -> lab.positions().equals(List.of(20L, 20L, 20L, 20L)));
    }

    /**
     * A second instance joins in the middle of the first one's transaction, which commits before it hands over; then one
     * stalls until the group has expelled it, and what it wrote is refused with its generation (KIP-447).
     */
    private static void rebalance(StreamsLab lab) throws Exception {
        Passing passing = new Passing();
        KafkaStreams first = lab.start(passing.topology(lab), stallable(lab));
        feedAll(lab, "one");
        StreamsLab.await("a transaction is open", () -> lab.values(false).size() >= StreamsLab.PARTITIONS);
        KafkaStreams second = lab.start(passing.topology(lab), stallable(lab));
        StreamsLab.await("both have partitions",
                () -> StreamsLab.activeTasks(first) == 2 && StreamsLab.activeTasks(second) == 2);
        lab.feed(0, "stall");
        passing.awaitStalled("stall");
        StreamsLab.await("the other one has all partitions",
                () -> Math.max(StreamsLab.activeTasks(first), StreamsLab.activeTasks(second)) == 4);
        feedAll(lab, "two");
        feedAll(lab, "commit");
        passing.release("stall");
        int all = 3 * StreamsLab.PARTITIONS + 1;
        feedAll(lab, "commit-again");
        StreamsLab.await("all is committed", () -> lab.values(true).size() == all + StreamsLab.PARTITIONS);
        StreamsLab.expectEqual("different outputs", all + StreamsLab.PARTITIONS, new TreeSet<>(lab.values(true)).size());
        StreamsLab.await("positions", () -> lab.positions().equals(List.of(5L, 4L, 4L, 4L)));
    }

    private static Properties stallable(StreamsLab lab) {
        Properties settings = lab.settingsWithoutCommits();
        settings.put("consumer.max.poll.interval.ms", "6000");
        return settings;
    }

    private static void feedAll(StreamsLab lab, String word) throws Exception {
        for (int partition = 0; partition < StreamsLab.PARTITIONS; partition++) {
            lab.feed(partition, word + "-" + partition);
        }
    }
}
