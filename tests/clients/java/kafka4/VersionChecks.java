import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** What kafka-clients of today have and 3.x has not: KIP-890, KIP-848, more of KIP-664. */
final class VersionChecks {
    static final boolean SPEAKS_TRANSACTIONS_V2 = true;

    private VersionChecks() {}

    static void addTo(Map<String, ClientCheck.Check> checks) {
        Map<String, Object> protocol = Map.of("group.protocol", "consumer");
        checks.put("java-transform-consumer-protocol", lab -> GroupChecks.transform(lab, "transform-848", protocol));
        checks.put("java-rebalance-consumer-protocol", lab -> GroupChecks.rebalance(lab, "rebalance-848", protocol));
        checks.put("java-admin-list-transactions-by-age-and-pattern", VersionChecks::listTransactions);
        checks.put("java-admin-force-terminate-transaction", VersionChecks::forceTerminate);
    }

    /** By duration since 3.8 (KIP-994), by a pattern of transactional ids since 4.1 (KIP-1152). */
    private static void listTransactions(Lab lab) throws Exception {
        TopicPartition at = lab.newTopic("filtered");
        String id = lab.named("filtered");
        try (KafkaProducer<String, String> producer = lab.transactional(id)) {
            producer.beginTransaction();
            Lab.send(producer, at, "open");
            String pattern = id.replace('-', '.');
            Lab.expect("pattern", 1, AdminChecks.list(lab, AdminChecks.any().filterOnTransactionalIdPattern(pattern)).size());
            Lab.expect(
                    "no match",
                    List.of(),
                    List.copyOf(AdminChecks.list(lab, AdminChecks.any().filterOnTransactionalIdPattern("nobody-.*"))));
            long hour = Duration.ofHours(1).toMillis();
            Lab.expect(
                    "longer than an hour",
                    Optional.empty(),
                    AdminChecks.stateIn(AdminChecks.list(lab, AdminChecks.any().filterOnDuration(hour)), id));
            producer.abortTransaction();
        }
    }

    private static void forceTerminate(Lab lab) throws Exception {
        AdminChecks.expectFencedBy(
                lab, "terminated", id -> lab.admin.forceTerminateTransaction(id).result().get());
    }
}
