import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.ConsumerGroupState;
import org.apache.kafka.common.TopicPartition;

/** Consume, transform, produce: positions inside the transaction, and members that come in the middle of one. */
final class GroupChecks {
    private static final int PARTITIONS = 4;
    private static final int RECORDS_PER_PARTITION = 12;
    /** A member of the classic protocol hears of a rebalance with its heartbeat; the other protocol has it from the broker. */
    private static final Map<String, Object> CLASSIC = Map.of("heartbeat.interval.ms", 200);
    /** Positions whose transaction has not yet got its marker are not told. */
    private static final ListConsumerGroupOffsetsOptions STABLE = new ListConsumerGroupOffsetsOptions().requireStable(true);

    private GroupChecks() {}

    static void addTo(Map<String, ClientCheck.Check> checks) {
        checks.put("transform", lab -> transform(lab, "transform", CLASSIC));
        checks.put("rebalance", lab -> rebalance(lab, "rebalance", CLASSIC));
        Map<String, Object> cooperative = new HashMap<>(CLASSIC);
        cooperative.put("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
        checks.put("java-rebalance-cooperative", lab -> rebalance(lab, "cooperative", cooperative));
        checks.put("java-commit-while-a-rebalance-waits", GroupChecks::commitWhileRebalancing);
    }

    static void transform(Lab lab, String stem, Map<String, Object> settings) throws Exception {
        List<TopicPartition> inputs = inputs(lab, stem);
        TopicPartition output = lab.newTopic(stem + "-out");
        String group = lab.named(stem);
        try (Worker worker = new Worker(lab, group, group, inputs.get(0).topic(), output, 7, settings)) {
            Lab.await("the first transaction", () -> worker.step() > 0);
            Map<TopicPartition, Long> before = positions(lab, group, inputs);
            Lab.await("the second one begins", worker::begin);
            worker.sendPositions();
            worker.abort();
            Lab.expect("positions after the abort", before, positions(lab, group, inputs));
            workUntilDone(lab, group, inputs, worker);
        }
        expectExactlyOnce(lab, inputs, output);
        int records = inputs.size() * RECORDS_PER_PARTITION;
        boolean more = lab.uncommitted(output).size() > records;
        Lab.expect("read_uncommitted sees the aborted ones, too", true, more);
    }

    /** The second member comes while the first has a transaction with records of every partition. */
    static void rebalance(Lab lab, String stem, Map<String, Object> settings) throws Exception {
        List<TopicPartition> inputs = inputs(lab, stem);
        String topic = inputs.get(0).topic();
        TopicPartition output = lab.newTopic(stem + "-out");
        String group = lab.named(stem);
        try (Worker first = new Worker(lab, group, group + "-1", topic, output, 5, settings);
                Worker second = new Worker(lab, group, group + "-2", topic, output, 5, settings)) {
            Lab.await("the first has all partitions and begins", first::begin);
            first.consumeFrom(Set.copyOf(inputs));
            Lab.await(
                    "the second takes partitions and goes on with them",
                    () -> {
                        first.consumer.poll(Duration.ofMillis(10)); // what it brings is consumed again, after the abort
                        return second.step() > 0;
                    });
            // What it consumed belongs to a generation that is over.
            Lab.expectThrown("the first's positions", CommitFailedException.class, first::sendPositions);
            first.abort();
            workUntilDone(lab, group, inputs, first, second);
        }
        expectExactlyOnce(lab, inputs, output);
    }

    /** A member has asked to join, and everybody's next poll is waited for: the generation is still the old one. */
    private static void commitWhileRebalancing(Lab lab) throws Exception {
        List<TopicPartition> inputs = inputs(lab, "waiting");
        String topic = inputs.get(0).topic();
        TopicPartition output = lab.newTopic("waiting-out");
        String group = lab.named("waiting");
        try (Worker first = new Worker(lab, group, group + "-1", topic, output, 5, CLASSIC);
                Worker second = new Worker(lab, group, group + "-2", topic, output, 5, CLASSIC)) {
            Lab.await("the first has all partitions and begins", first::begin);
            first.consumeFrom(Set.copyOf(inputs));
            Lab.await(
                    "the second asks to join",
                    () -> {
                        second.consumer.poll(Duration.ofMillis(10));
                        return state(lab, group) == ConsumerGroupState.PREPARING_REBALANCE;
                    });
            first.sendPositions();
            first.commit();
            Lab.expect("partitions with a position", PARTITIONS, positions(lab, group, inputs).size());
            workUntilDone(lab, group, inputs, first, second);
            Lab.await(
                    "the second is in", // else its close would wait for the answer to its JoinGroup
                    () -> first.step() + second.step() == 0 && !second.consumer.assignment().isEmpty());
        }
        expectExactlyOnce(lab, inputs, output);
    }

    @SuppressWarnings("deprecation") // GroupState came in 4.0
    private static ConsumerGroupState state(Lab lab, String group) throws Exception {
        return lab.admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get().state();
    }

    private static List<TopicPartition> inputs(Lab lab, String stem) throws Exception {
        List<TopicPartition> partitions = lab.newTopic(stem + "-in", PARTITIONS);
        try (KafkaProducer<String, String> producer = lab.producer(Map.of())) {
            for (TopicPartition at : partitions) {
                for (int i = 0; i < RECORDS_PER_PARTITION; i++) {
                    Lab.send(producer, at, at.partition() + "-" + i);
                }
            }
        }
        return partitions;
    }

    private static void workUntilDone(Lab lab, String group, List<TopicPartition> inputs, Worker... workers)
            throws Exception {
        Map<TopicPartition, Long> ends = new HashMap<>();
        inputs.forEach(at -> ends.put(at, (long) RECORDS_PER_PARTITION));
        Lab.await(
                "the group is through",
                () -> {
                    int moved = 0;
                    for (Worker worker : workers) {
                        moved += worker.step();
                    }
                    return moved == 0 && positions(lab, group, inputs).equals(ends);
                });
    }

    /** Partitions are named: of all that a group has, a broker leaves out those whose first position is still pending. */
    private static Map<TopicPartition, Long> positions(Lab lab, String group, List<TopicPartition> partitions)
            throws Exception {
        ListConsumerGroupOffsetsSpec named = new ListConsumerGroupOffsetsSpec().topicPartitions(partitions);
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        // Of a position that is not stable the admin client leaves the partition out, and says nothing.
        Lab.await(
                "stable positions",
                () -> {
                    found.clear();
                    found.putAll(lab.admin
                            .listConsumerGroupOffsets(Map.of(group, named), STABLE)
                            .partitionsToOffsetAndMetadata(group)
                            .get());
                    return found.keySet().containsAll(partitions);
                });
        Map<TopicPartition, Long> positions = new HashMap<>();
        found.forEach((at, position) -> {
            if (position != null) {
                positions.put(at, position.offset());
            }
        });
        return positions;
    }

    private static void expectExactlyOnce(Lab lab, List<TopicPartition> inputs, TopicPartition output) throws Exception {
        List<String> expected =
                inputs.stream()
                        .flatMap(at -> java.util.stream.IntStream.range(0, RECORDS_PER_PARTITION)
                                .mapToObj(i -> at.partition() + ":" + i))
                        .sorted()
                        .collect(Collectors.toList());
        Lab.await("all outputs are visible", () -> sources(lab, output).size() >= expected.size());
        Lab.expect("inputs that led to an output", expected, sources(lab, output));
    }

    private static List<String> sources(Lab lab, TopicPartition output) throws Exception {
        return lab.records(output, "read_committed", 0).stream()
                .map(ConsumerRecord::key)
                .sorted()
                .collect(Collectors.toList());
    }
}
