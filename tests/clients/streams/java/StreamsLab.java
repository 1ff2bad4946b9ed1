import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** The bench of one check: two topics, an application id, instances of an application, and ways to feed and read. */
final class StreamsLab implements AutoCloseable {
    static final Duration PATIENCE = Duration.ofSeconds(30);
    static final int PARTITIONS = 4;

    final String application;
    final String input;
    final String output;
    final Admin admin;
    private final String bootstrap;
    private final Path directory;
    private final KafkaProducer<String, String> feeder;
    private final List<KafkaStreams> instances = new ArrayList<>();
    private int started;

    StreamsLab(String bootstrap, String name) throws Exception {
        this.bootstrap = bootstrap;
        this.application = name;
        this.input = name + "-in";
        this.output = name + "-out";
        this.directory = Files.createTempDirectory("streams-check-");
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        this.feeder = producer(Map.of());
        List<NewTopic> topics = new ArrayList<>();
        for (String topic : List.of(input, output)) {
            topics.add(new NewTopic(topic, Optional.of(PARTITIONS), Optional.empty()));
        }
        admin.createTopics(topics).all().get();
    }

    @Override
    public void close() throws IOException {
        instances.forEach(StreamsLab::stop);
        feeder.close();
        admin.close();
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }

    // Instances

    /** Kafka Streams' settings of the next instance: quick, exactly once, nothing cached, a state directory of its own. */
    Properties settings() {
        started++;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", application);
        settings.put("client.id", application + "-" + started);
        settings.put("state.dir", directory.resolve("state-" + started).toString());
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "-1");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("consumer.auto.offset.reset", "earliest");
        // A thread that failed does not leave its group: it is missed after the shortest session that brokers allow.
        settings.put("consumer.session.timeout.ms", "6000");
        settings.put("consumer.heartbeat.interval.ms", "300");
        return settings;
    }

    /** Settings of an instance that commits only when it is asked to. */
    Properties settingsWithoutCommits() {
        Properties settings = settings();
        settings.put("commit.interval.ms", "600000");
        settings.put("producer.transaction.timeout.ms", "700000");
        return settings;
    }

    /** Start an instance and wait until it runs; a thread that fails is replaced. */
    KafkaStreams start(Topology topology, Properties settings) throws Exception {
        KafkaStreams instance = new KafkaStreams(topology, settings);
        run(instance);
        return instance;
    }

    /** The same with an instance that has been made already. */
    void run(KafkaStreams instance) throws Exception {
        instances.add(instance);
        instance.setUncaughtExceptionHandler(failure -> {
            System.err.println("a thread failed: " + failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        instance.start();
        await("the instance runs", () -> instance.state() == KafkaStreams.State.RUNNING);
    }

    /** Stop an instance, which leaves its group: nobody waits for its session. */
    static void stop(KafkaStreams instance) {
        CloseOptions leaving = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        expect(instance.close(leaving.withTimeout(PATIENCE)), "an instance does not stop");
    }

    static int activeTasks(KafkaStreams instance) {
        return instance.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
    }

    static int standbyTasks(KafkaStreams instance) {
        return instance.metadataForLocalThreads().stream().mapToInt(thread -> thread.standbyTasks().size()).sum();
    }

    // Feeding and reading

    KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Write a value to a partition of the input, without a transaction. */
    void feed(int partition, String... values) throws Exception {
        for (String value : values) {
            feeder.send(new ProducerRecord<>(input, partition, "key", value)).get();
        }
    }

    /** What a reader of the output sees now: up to its end, in the order of each partition. */
    List<ConsumerRecord<String, String>> outputs(boolean committed) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", 20);
        try (KafkaConsumer<String, String> reader =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = partitions(output);
            reader.assign(partitions);
            reader.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = reader.endOffsets(partitions);
            List<ConsumerRecord<String, String>> seen = new ArrayList<>();
            while (partitions.stream().anyMatch(one -> reader.position(one) < ends.get(one))) {
                reader.poll(Duration.ofMillis(100)).forEach(seen::add);
            }
            return seen;
        }
    }

    List<String> values(boolean committed) {
        return outputs(committed).stream().map(ConsumerRecord::value).sorted().toList();
    }

    static List<TopicPartition> partitions(String topic) {
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        return all;
    }

    /**
     * Committed positions of the application in its input; 0 where there is none. Those whose transaction has not yet got
     * its marker are waited for; of partitions that are not named a broker leaves out whose first position is pending.
     */
    List<Long> positions() throws Exception {
        ListConsumerGroupOffsetsSpec named = new ListConsumerGroupOffsetsSpec().topicPartitions(partitions(input));
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        // Of a position that is not stable the admin client leaves the partition out, and says nothing.
        await("stable positions", () -> {
            found.clear();
            found.putAll(admin.listConsumerGroupOffsets(
                            Map.of(application, named), new ListConsumerGroupOffsetsOptions().requireStable(true))
                    .partitionsToOffsetAndMetadata(application)
                    .get());
            return found.keySet().containsAll(partitions(input));
        });
        return partitions(input).stream()
                .map(one -> found.get(one) == null ? 0L : found.get(one).offset())
                .toList();
    }

    /** The transactions of this application's producers. */
    List<TransactionListing> transactions() throws Exception {
        return admin.listTransactions().all().get().stream()
                .filter(one -> one.transactionalId().startsWith(application + "-"))
                .toList();
    }

    /** Every committed output is a word's next count, and there are as many as inputs. */
    void expectExactCounts(Map<String, Integer> fed) {
        Map<String, Integer> seen = new LinkedHashMap<>();
        for (ConsumerRecord<String, String> record : outputs(true)) {
            int expected = seen.merge(record.key(), 1, Integer::sum);
            expect(record.value().equals(Integer.toString(expected)), record.key() + " is " + record.value() + " at "
                    + record.partition() + ":" + record.offset() + ", expected " + expected);
        }
        expect(seen.equals(new HashMap<>(fed)), "counted " + seen + ", fed " + fed);
    }

    void awaitCounts(int outputs) throws Exception {
        await(outputs + " committed outputs", () -> values(true).size() >= outputs);
    }

    // Expecting

    static void expect(boolean isSo, String otherwise) {
        if (!isSo) {
            throw new AssertionError(otherwise);
        }
    }

    static <T> void expectEqual(String what, T expected, T found) {
        expect(expected.equals(found), what + ": " + found + ", expected " + expected);
    }

    static void await(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.call()) {
            expect(System.nanoTime() < deadline, "not so after " + PATIENCE.toSeconds() + " s: " + what);
            Thread.sleep(20);
        }
    }
}
