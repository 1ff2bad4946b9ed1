package txnsim.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A Produce request is held on its way, its producer gives up and aborts, and then the request arrives after all (KIP-890).
 * What kafka-clients and an onlooker saw is judged by the checkers that judge the shipped scenario of the same story, and must
 * come to the same.
 */
final class LateProduceTest {
    private static final String TOPIC = "payments";
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private static Map<String, String> declared;

    @BeforeAll
    static void runTheScenario() {
        try (TxnsimCluster cluster = TxnsimCluster.start(new TxnsimCluster.Options().brokers(1))) {
            declared = cluster.runScenario("z01");
        }
    }

    @ParameterizedTest
    @CsvSource({"V-, 0, false", "V+, 1, true", "TV2, 2, true"})
    void comesToWhatTheScenarioSays(String mode, int level, boolean verification) throws Exception {
        TxnsimCluster.Options options = new TxnsimCluster.Options()
                .topic(TOPIC, 1)
                .transactionVersion(level)
                .settings(Map.of("transaction.partition.verification.enable", verification));
        try (TxnsimCluster cluster = TxnsimCluster.start(options)) {
            assertEquals(declared.get(mode), play(cluster).judge());
            assertEquals(mode.equals("V-"), !cluster.hangingTransactions().isEmpty());
            cluster.faults().verify();
        }
    }

    private static History play(TxnsimCluster cluster) throws Exception {
        History history = cluster.history("app");
        Map<String, Object> impatient = Map.of(
                "transactional.id", "app", "delivery.timeout.ms", 6_000, "request.timeout.ms", 4_000, "linger.ms", 0);
        try (KafkaProducer<String, String> producer = producer(cluster, impatient)) {
            producer.initTransactions();
            producer.beginTransaction();
            history.add("began", Map.of("transaction", "t1", "transactional_id", "app"));
            wrote(history, "first", "ok", producer.send(new ProducerRecord<>(TOPIC, 0, null, "first")).get().offset(), true);

            cluster.faults().arm(Faults.Rule.at("client.request", "late-produce").api("Produce").transactionalId("app").hold());
            var lateSend = producer.send(new ProducerRecord<>(TOPIC, 0, null, "late"));
            cluster.faults().waitUntilStruck("late-produce", 1, PATIENCE);
            assertThrows(ExecutionException.class, lateSend::get, "its delivery times out");
            wrote(history, "late", "unknown", -1, true);
            producer.abortTransaction();
            history.add("ended", Map.of("transaction", "t1", "commit", false));
            cluster.waitForTransaction("app", "CompleteAbort", "Empty");
            cluster.faults().release("late-produce");
        }
        try (KafkaProducer<String, String> bystander = producer(cluster, Map.of())) {
            for (String value : new String[] {"after-1", "after-2"}) {
                wrote(history, value, "ok", bystander.send(new ProducerRecord<>(TOPIC, 0, null, value)).get().offset(), false);
            }
        }
        history.look(TOPIC, 0);
        return history;
    }

    private static KafkaProducer<String, String> producer(TxnsimCluster cluster, Map<String, Object> producerSettings) {
        Map<String, Object> config = new HashMap<>(producerSettings);
        config.put("bootstrap.servers", cluster.bootstrap());
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private static void wrote(History history, String value, String outcome, long offset, boolean inTransaction) {
        Map<String, Object> fields = new HashMap<>(
                Map.of("topic", TOPIC, "partition", 0, "value", value, "outcome", outcome, "offset", offset));
        if (inTransaction) {
            fields.put("transaction", "t1");
        }
        history.add("wrote", fields);
    }
}
