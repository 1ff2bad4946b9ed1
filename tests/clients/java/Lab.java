import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The bench on which checks work: how clients connect, what is expected of the cluster, and short ways to produce, read
 * and look.
 *
 * <p>Names carry the run, so that a second one against the same cluster starts clean.
 */
final class Lab implements AutoCloseable {
    static final Duration PATIENCE = Duration.ofSeconds(30);

    final int transactionVersion;
    final Admin admin;
    private final Map<String, Object> connection;
    private final String run;

    /**
     * @param connection what every client is configured with: addresses, and how to log in
     * @param run beginning of every name
     */
    Lab(Map<String, Object> connection, int transactionVersion, String run) {
        this.connection = connection;
        this.transactionVersion = transactionVersion;
        this.run = run;
        this.admin = Admin.create(connection);
    }

    /** For programs that are told an address and, at most, how names begin. */
    static Lab at(String bootstrap) {
        String moment = Long.toString(System.currentTimeMillis(), 36);
        String run = System.getenv().getOrDefault("TXNSIM_RUN", moment);
        return new Lab(Map.of("bootstrap.servers", bootstrap), -1, run);
    }

    @Override
    public void close() {
        admin.close();
    }

    String named(String stem) {
        return run + "-java-" + stem;
    }

    // Topics

    TopicPartition newTopic(String stem) throws Exception {
        return newTopic(stem, 1).get(0);
    }

    List<TopicPartition> newTopic(String stem, int partitions) throws Exception {
        String topic = named(stem);
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.empty()))).all().get();
        await("every partition of " + topic + " has a leader", () -> leaders(topic).size() == partitions);
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        return all;
    }

    /** The leader of each partition of the topic that has one; none while the asked broker has not heard of the topic. */
    Map<Integer, Node> leaders(String topic) throws Exception {
        Map<Integer, Node> leaders = new HashMap<>();
        try {
            for (TopicPartitionInfo info :
                    admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()) {
                if (info.leader() != null) {
                    leaders.put(info.partition(), info.leader());
                }
            }
        } catch (ExecutionException failure) {
            if (!(failure.getCause() instanceof UnknownTopicOrPartitionException)) {
                throw failure;
            }
        }
        return leaders;
    }

    // Producing

    KafkaProducer<String, String> producer(Map<String, Object> overrides) {
        Map<String, Object> config = new HashMap<>(connection);
        config.put("retry.backoff.ms", 10);
        config.putAll(overrides);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    /** A transactional producer, already initialised. */
    KafkaProducer<String, String> transactional(String transactionalId) {
        return transactional(transactionalId, Map.of());
    }

    KafkaProducer<String, String> transactional(String transactionalId, Map<String, Object> overrides) {
        Map<String, Object> config = new HashMap<>(overrides);
        config.put("transactional.id", transactionalId);
        KafkaProducer<String, String> producer = producer(config);
        producer.initTransactions();
        return producer;
    }

    /** Send and wait for the acknowledgement; the offset of the record. */
    static long send(KafkaProducer<String, String> producer, TopicPartition at, String value) throws Exception {
        return producer.send(new ProducerRecord<>(at.topic(), at.partition(), null, value)).get().offset();
    }

    // Reading

    KafkaConsumer<String, String> consumer(Map<String, Object> overrides) {
        Map<String, Object> config = new HashMap<>(connection);
        config.put("enable.auto.commit", false);
        config.putAll(overrides);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    /** Records from {@code offset} to the end that this isolation level may see, by a consumer without group. */
    List<ConsumerRecord<String, String>> records(TopicPartition at, String isolation, long offset) throws Exception {
        try (KafkaConsumer<String, String> consumer =
                consumer(
                        Map.of("isolation.level", isolation, "auto.offset.reset", "none", "fetch.max.wait.ms", 20))) {
            consumer.assign(List.of(at));
            consumer.seek(at, offset);
            long end = consumer.endOffsets(List.of(at)).get(at);
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            await(
                    isolation + " consumer of " + at + " reaches " + end,
                    () -> {
                        consumer.poll(Duration.ofMillis(100)).forEach(records::add);
                        return consumer.position(at) >= end;
                    });
            return records;
        }
    }

    List<String> read(TopicPartition at, String isolation, long offset) throws Exception {
        return records(at, isolation, offset).stream().map(ConsumerRecord::value).collect(Collectors.toList());
    }

    List<String> committed(TopicPartition at) throws Exception {
        return read(at, "read_committed", 0);
    }

    List<String> uncommitted(TopicPartition at) throws Exception {
        return read(at, "read_uncommitted", 0);
    }

    // Looking

    TransactionDescription describe(String transactionalId) throws Exception {
        return admin.describeTransactions(List.of(transactionalId)).description(transactionalId).get();
    }

    List<ProducerState> producersOf(TopicPartition at) throws Exception {
        return admin.describeProducers(List.of(at)).partitionResult(at).get().activeProducers();
    }

    /** Offset of the first record of the open transaction of this producer, if it has one there. */
    Optional<Long> openSince(TopicPartition at, long producerId) throws Exception {
        for (ProducerState state : producersOf(at)) {
            if (state.producerId() == producerId && state.currentTransactionStartOffset().isPresent()) {
                return Optional.of(state.currentTransactionStartOffset().getAsLong());
            }
        }
        return Optional.empty();
    }

    // Waiting and expecting

    /** What may throw. */
    interface Action {
        void run() throws Exception;
    }

    static void await(String what, Callable<Boolean> condition) throws Exception {
        await(what, PATIENCE, condition);
    }

    static void await(String what, Duration patience, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + patience.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("not within " + patience.toSeconds() + " s: " + what);
            }
            Thread.sleep(10); // pace of asking; what is waited for is the condition
        }
    }

    static void expect(String what, Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
    }

    static <E extends Throwable> E expectThrown(String what, Class<E> expected, Action action) {
        try {
            action.run();
        } catch (Throwable thrown) {
            for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
                if (expected.isInstance(cause)) {
                    return expected.cast(cause);
                }
            }
            throw new AssertionError(what + ": expected " + expected.getSimpleName() + ", found " + thrown, thrown);
        }
        throw new AssertionError(what + ": expected " + expected.getSimpleName() + ", found no exception");
    }
}
