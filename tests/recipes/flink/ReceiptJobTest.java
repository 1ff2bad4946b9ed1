package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReceiptJobTest {
    private static final int ORDERS = 1_500;
    private static final int PARTITIONS = 3;
    private static final AtomicInteger FAILURES = new AtomicInteger();

    @TempDir private Path checkpoints;

    @Test
    void eachOrderHasOneReceiptThoughTheJobFailsAndIsStartedAgain() throws Exception {
        try (var cluster = Txnsim.get()) {
            // Names of its own: tests share the cluster, and nothing else.
            String run = UUID.randomUUID().toString();
            var job =
                    new ReceiptJob(
                            cluster.bootstrap(), "shop-" + run, "orders-" + run, "receipts-" + run);
            createTopics(job);
            writeOrders(job);

            // It fails behind its first checkpoint, and Flink restarts it from there.
            var first = flink(null);
            job.define(first, new Receipts());
            var running = first.executeAsync();
            until(() -> FAILURES.get() > 0 && readReceipts(job).size() >= ORDERS / 3);
            running.cancel().get();
            assertTrue(readReceipts(job).size() < ORDERS, "cancelled too late");

            // A new job goes on from a checkpoint of the old one.
            var second = flink(newestCheckpoint());
            job.define(second, new Receipts());
            running = second.executeAsync();
            until(() -> readReceipts(job).size() >= ORDERS);
            running.stopWithSavepoint(false, checkpoints + "", SavepointFormatType.CANONICAL).get();

            List<String> expected =
                    IntStream.range(0, ORDERS).mapToObj(at -> "receipt of order " + at).toList();
            assertEquals(
                    expected.stream().sorted().toList(),
                    readReceipts(job).stream().sorted().toList());
        }
    }

    private StreamExecutionEnvironment flink(Path from) {
        Configuration settings = new Configuration();
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(300));
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
        settings.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ZERO);
        if (from != null) {
            settings.set(StateRecoveryOptions.SAVEPOINT_PATH, from.toUri().toString());
        }
        return StreamExecutionEnvironment.getExecutionEnvironment(settings).setParallelism(2);
    }

    private Path newestCheckpoint() throws Exception {
        try (var files = Files.walk(checkpoints)) {
            return files.filter(file -> file.endsWith("_metadata"))
                    .map(Path::getParent)
                    .max(Comparator.comparingLong(path -> path.toFile().lastModified()))
                    .orElseThrow();
        }
    }

    /** Slow enough for some checkpoints; fails once, when the first of them is done. */
    private static final class Receipts implements MapFunction<String, String>, CheckpointListener {
        private boolean failing;

        @Override
        public String map(String order) throws Exception {
            Thread.sleep(2);
            if (failing && FAILURES.getAndIncrement() == 0) {
                throw new IllegalStateException("no network");
            }
            return "receipt of " + order;
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            failing = true;
        }
    }

    private static void createTopics(ReceiptJob job) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", job.bootstrap()))) {
            admin.createTopics(
                            List.of(
                                    new NewTopic(
                                            job.orders(), Optional.of(PARTITIONS), Optional.empty()),
                                    new NewTopic(
                                            job.receipts(), Optional.of(PARTITIONS), Optional.empty())))
                    .all()
                    .get();
        }
    }

    private static void writeOrders(ReceiptJob job) {
        Map<String, Object> settings = Map.of("bootstrap.servers", job.bootstrap());
        var strings = new StringSerializer();
        try (var producer = new KafkaProducer<>(settings, strings, strings)) {
            for (int at = 0; at < ORDERS; at++) {
                producer.send(
                        new ProducerRecord<>(job.orders(), at % PARTITIONS, null, "order " + at));
            }
        }
    }

    /** All that read_committed shows: the end it knows is the last stable offset. */
    private static List<String> readReceipts(ReceiptJob job) {
        List<String> values = new ArrayList<>();
        Map<String, Object> settings =
                Map.of("bootstrap.servers", job.bootstrap(), "isolation.level", "read_committed");
        var strings = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, strings, strings)) {
            var partitions =
                    IntStream.range(0, PARTITIONS)
                            .mapToObj(partition -> new TopicPartition(job.receipts(), partition))
                            .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    private static void until(Callable<Boolean> condition) throws Exception {
        long giveUp = System.nanoTime() + Duration.ofSeconds(90).toNanos();
        while (!condition.call()) {
            assertTrue(System.nanoTime() < giveUp, "not in time");
            Thread.sleep(50);
        }
    }
}
