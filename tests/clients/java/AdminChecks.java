import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;

/** What an operator sees and does through Admin. */
final class AdminChecks {
    private AdminChecks() {}

    static void addTo(Map<String, ClientCheck.Check> checks) {
        checks.put("admin", AdminChecks::all);
        checks.put("java-admin-describe-features", AdminChecks::features);
        checks.put("java-admin-create-topic", AdminChecks::createTopic);
        checks.put("java-admin-without-fencing", AdminChecks::withoutFencing);
    }

    /** All of KIP-664. */
    private static void all(Lab lab) throws Exception {
        withoutFencing(lab);
        fenceProducers(lab);
    }

    private static void withoutFencing(Lab lab) throws Exception {
        describeTransactions(lab);
        listTransactions(lab);
        describeProducers(lab);
        abortTransaction(lab);
    }

    private static void features(Lab lab) throws Exception {
        Map<String, FinalizedVersionRange> finalized =
                lab.admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        FinalizedVersionRange range = finalized.get("transaction.version");
        int level = range == null ? 0 : range.maxVersionLevel(); // level 0 may be left out
        Lab.expect("finalized transaction.version", lab.transactionVersion, level);
    }

    private static void createTopic(Lab lab) throws Exception {
        String topic = lab.newTopic("created", 3).get(0).topic();
        Lab.await("it is listed", () -> lab.admin.listTopics().names().get().contains(topic));
        Lab.expectThrown(
                "creating it again",
                TopicExistsException.class,
                () -> lab.admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get());
    }

    private static void describeTransactions(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("described");
        String id = lab.named("described");
        Lab.expectThrown("an unknown id", TransactionalIdNotFoundException.class, () -> lab.describe(id));
        try (KafkaProducer<String, String> producer = lab.transactional(id, Map.of("transaction.timeout.ms", 45_000))) {
            Lab.expect("after initTransactions", TransactionState.EMPTY, lab.describe(id).state());
            producer.beginTransaction();
            Lab.send(producer, at, "open");
            TransactionDescription open = lab.describe(id);
            Lab.expect("state", TransactionState.ONGOING, open.state());
            Lab.expect("partitions", Set.of(at), open.topicPartitions());
            Lab.expect("timeout", 45_000L, open.transactionTimeoutMs());
            Lab.expect("has a start", true, open.transactionStartTimeMs().isPresent());
            long age = System.currentTimeMillis() - open.transactionStartTimeMs().getAsLong();
            Lab.expect("started just now (" + age + " ms ago)", true, Math.abs(age) < Lab.PATIENCE.toMillis());
            producer.commitTransaction();
            Lab.await("CompleteCommit", () -> lab.describe(id).state() == TransactionState.COMPLETE_COMMIT);
            Lab.expect("partitions afterwards", Set.of(), lab.describe(id).topicPartitions());
            producer.beginTransaction();
            Lab.send(producer, at, "again");
            producer.abortTransaction();
            Lab.await("CompleteAbort", () -> lab.describe(id).state() == TransactionState.COMPLETE_ABORT);
        }
    }

    private static void listTransactions(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("listed");
        String id = lab.named("listed");
        try (KafkaProducer<String, String> producer = lab.transactional(id)) {
            producer.beginTransaction();
            Lab.send(producer, at, "open");
            long producerId = lab.describe(id).producerId();
            Lab.expect("no filter", Optional.of(TransactionState.ONGOING), stateIn(list(lab, any()), id));
            Lab.expect(
                    "state Ongoing",
                    Optional.of(TransactionState.ONGOING),
                    stateIn(list(lab, any().filterStates(Set.of(TransactionState.ONGOING))), id));
            Lab.expect(
                    "state Empty",
                    Optional.empty(),
                    stateIn(list(lab, any().filterStates(Set.of(TransactionState.EMPTY))), id));
            Lab.expect("this producer id", 1, list(lab, any().filterProducerIds(Set.of(producerId))).size());
            Lab.expect("another producer id", 0, list(lab, any().filterProducerIds(Set.of(987_654_321L))).size());
            producer.abortTransaction();
        }
    }

    static ListTransactionsOptions any() {
        return new ListTransactionsOptions();
    }

    static Collection<TransactionListing> list(Lab lab, ListTransactionsOptions options) throws Exception {
        return lab.admin.listTransactions(options).all().get();
    }

    static Optional<TransactionState> stateIn(Collection<TransactionListing> listings, String id) {
        return listings.stream()
                .filter(listing -> listing.transactionalId().equals(id))
                .map(TransactionListing::state)
                .findFirst();
    }

    private static void describeProducers(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("producers");
        String id = lab.named("producers");
        try (KafkaProducer<String, String> producer = lab.transactional(id)) {
            producer.beginTransaction();
            long offset = Lab.send(producer, at, "one");
            Lab.send(producer, at, "two");
            TransactionDescription transaction = lab.describe(id);
            ProducerState state = lab.producersOf(at).get(0);
            Lab.expect("producer id", transaction.producerId(), state.producerId());
            Lab.expect("producer epoch", transaction.producerEpoch(), state.producerEpoch());
            Lab.expect("last sequence", 1, state.lastSequence());
            Lab.expect("open since", offset, state.currentTransactionStartOffset().getAsLong());
            producer.commitTransaction();
            Lab.await("closed", () -> lab.openSince(at, transaction.producerId()).isEmpty());
            Lab.expect("coordinator epoch known", true, lab.producersOf(at).get(0).coordinatorEpoch().isPresent());
        }
    }

    /** WriteTxnMarkers to the leader alone: the partition goes on, the coordinator is not told (KIP-664). */
    private static void abortTransaction(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("admin-abort");
        String id = lab.named("admin-abort");
        try (KafkaProducer<String, String> producer = lab.transactional(id);
                KafkaProducer<String, String> plain = lab.producer(Map.of())) {
            producer.beginTransaction();
            Lab.send(producer, at, "open");
            Lab.send(plain, at, "behind it");
            Lab.expect("read_committed while open", List.of(), lab.committed(at));
            ProducerState open =
                    lab.producersOf(at).stream()
                            .filter(state -> state.currentTransactionStartOffset().isPresent())
                            .findFirst()
                            .orElseThrow();
            lab.admin
                    .abortTransaction(
                            new AbortTransactionSpec(
                                    at,
                                    open.producerId(),
                                    (short) open.producerEpoch(),
                                    open.coordinatorEpoch().orElse(0)))
                    .all()
                    .get();
            Lab.expect("read_committed afterwards", List.of("behind it"), lab.committed(at));
            Lab.expect("the coordinator's state", TransactionState.ONGOING, lab.describe(id).state());
            producer.abortTransaction();
        }
    }

    private static void fenceProducers(Lab lab) throws Exception {
        expectFencedBy(lab, "fenced", id -> lab.admin.fenceProducers(List.of(id)).all().get());
    }

    /** A way to put an end to whoever holds a transactional id. */
    interface Fence {
        void raise(String transactionalId) throws Exception;
    }

    static void expectFencedBy(Lab lab, String stem, Fence fence) throws Exception {
        TopicPartition at = lab.newTopic(stem);
        String id = lab.named(stem);
        try (KafkaProducer<String, String> producer = lab.transactional(id)) {
            producer.beginTransaction();
            Lab.send(producer, at, "of the fenced");
            fence.raise(id);
            Lab.await("the state is Empty", () -> lab.describe(id).state() == TransactionState.EMPTY);
            Lab.expectThrown(
                    "commit of the fenced",
                    ProducerFencedException.class,
                    producer::commitTransaction);
        }
        Lab.expect("read_committed", List.of(), lab.committed(at));
    }
}
