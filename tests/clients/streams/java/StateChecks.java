import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** An application with a state store: exact counts, state that is restored, instances that come and go. */
final class StateChecks {
    private static final int ROUNDS = 25;

    private StateChecks() {}

    static void addTo(Map<String, StreamsCheck.Check> checks) {
        checks.put("streams-counts-exact", StateChecks::countsExact);
        checks.put("streams-restores-state", StateChecks::restoresState);
        checks.put("streams-two-instances-rebalance", StateChecks::twoInstances);
    }

    /** Repartition topic, changelog, output and positions in one transaction: each word's counts are 1, 2, 3 and so on. */
    private static void countsExact(StreamsLab lab) throws Exception {
        Properties settings = lab.settings();
        settings.put("num.stream.threads", "2");
        lab.start(counts(lab), settings);
        Map<String, Integer> fed = new HashMap<>();
        int inputs = feedWords(lab, fed, ROUNDS);
        lab.awaitCounts(inputs);
        lab.expectExactCounts(fed);
        StreamsLab.expect(lab.admin.listTopics().names().get().contains(
                CountsTopology.repartitionTopic(lab.application)), "there is no repartition topic");
    }

    /** An instance on an empty disk reads its counts from the changelog and goes on with them. */
    private static void restoresState(StreamsLab lab) throws Exception {
        Map<String, Integer> fed = new HashMap<>();
        KafkaStreams first = lab.start(counts(lab), lab.settings());
        int inputs = feedWords(lab, fed, ROUNDS);
        lab.awaitCounts(inputs);
        StreamsLab.stop(first);
        KafkaStreams second = new KafkaStreams(counts(lab), lab.settings());
        Restored restored = new Restored();
        second.setGlobalStateRestoreListener(restored);
        lab.run(second);
        inputs += feedWords(lab, fed, ROUNDS);
        lab.awaitCounts(inputs);
        lab.expectExactCounts(fed);
        StreamsLab.expect(restored.records.get() >= fed.size(), restored.records + " records were restored");
    }

    /** With standbys and a second instance that comes while words are counted, and stays when the first one goes. */
    private static void twoInstances(StreamsLab lab) throws Exception {
        Map<String, Integer> fed = new HashMap<>();
        KafkaStreams first = lab.start(counts(lab), withStandby(lab));
        int inputs = feedWords(lab, fed, ROUNDS);
        KafkaStreams second = lab.start(counts(lab), withStandby(lab));
        inputs += feedWords(lab, fed, ROUNDS);
        for (KafkaStreams instance : new KafkaStreams[] {first, second}) {
            StreamsLab.await("both count, and stand by for each other",
                    () -> StreamsLab.activeTasks(instance) > 0 && StreamsLab.standbyTasks(instance) > 0);
        }
        inputs += feedWords(lab, fed, ROUNDS);
        StreamsLab.stop(first);
        inputs += feedWords(lab, fed, ROUNDS);
        lab.awaitCounts(inputs);
        lab.expectExactCounts(fed);
    }

    private static Topology counts(StreamsLab lab) {
        return CountsTopology.of(lab.input, lab.output);
    }

    private static Properties withStandby(StreamsLab lab) {
        Properties settings = lab.settings();
        settings.put("num.standby.replicas", "1");
        return settings;
    }

    private static int feedWords(StreamsLab lab, Map<String, Integer> fed, int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            for (int partition = 0; partition < StreamsLab.PARTITIONS; partition++) {
                String word = "word-" + (round * 3 + partition) % 10;
                fed.merge(word, 1, Integer::sum);
                lab.feed(partition, word);
            }
        }
        return rounds * StreamsLab.PARTITIONS;
    }

    private static final class Restored implements StateRestoreListener {
        final AtomicLong records = new AtomicLong();

        @Override
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {}

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long total) {
            records.addAndGet(total);
        }
    }
}
