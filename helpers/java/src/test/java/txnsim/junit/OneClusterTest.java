package txnsim.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;

/** One cluster for the tests of a class, fresh for each of them. */
@Txnsim(brokers = 1, topics = {"orders:1", "plain"}, settings = "transaction.max.timeout.ms=60000")
final class OneClusterTest {
    @RepeatedTest(3)
    void everyTestMeetsAFreshCluster(TxnsimCluster cluster) throws Exception {
        assertEquals(0, cluster.transactions().size());
        assertEquals("plain", cluster.topic("plain").get("name").asText());
        cluster.faults().arm(Faults.Rule.at("client.request", "moved").api("EndTxn").limit(1).fail("NOT_COORDINATOR"));
        Map<String, Object> config = Map.of("bootstrap.servers", cluster.bootstrap(), "transactional.id", "app");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            assertEquals(0, producer.send(new ProducerRecord<>("orders", "v")).get().offset());
            producer.commitTransaction(); // it finds its coordinator again
        }
        assertEquals(1, cluster.faults().get("moved").get("struck").asInt());
        cluster.waitForTransaction("app", "CompleteCommit");
        cluster.assertNoHangingTransactions();
    }

    /** The first fault: the coordinator waits for the lost marker's answer for request.timeout.ms, 30 s, which an advance ends. */
    @Test
    void aCommitSurvivesALostMarker(TxnsimCluster cluster) throws Exception {
        cluster.faults().arm(Faults.Rule.at("peer.request", "lost").api("WriteTxnMarkers").limit(1).drop());
        Map<String, Object> config = Map.of("bootstrap.servers", cluster.bootstrap(), "transactional.id", "shop");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "one order")).get();
            long startNs = System.nanoTime();
            producer.commitTransaction();
            cluster.faults().waitUntilStruck("lost", Duration.ofSeconds(10));
            cluster.advanceClock(Duration.ofSeconds(31));
            cluster.waitForTransaction("shop", Duration.ofSeconds(10), "CompleteCommit");
            cluster.assertExactlyOnce(List.of("one order"), "orders");
            long tookMs = (System.nanoTime() - startNs) / 1_000_000;
            System.out.println("from the commit to its end: " + tookMs + " ms");
            assertTrue(tookMs < 25_000, "it took " + tookMs + " ms");
        }
    }

    @Test
    void whatWasCommittedIsComparedInTheWordsOfPythonsTests(TxnsimCluster cluster) {
        assertEquals(List.of(), cluster.committed("orders"));
        cluster.assertExactlyOnce("orders", "plain");
        var failure = assertThrows(AssertionError.class, () -> cluster.assertExactlyOnce(List.of("a"), "orders"));
        assertEquals("not exactly once, from what was given to orders:\nmissing: 1 record\n  'a'", failure.getMessage());
    }

    @Test
    void anAdvanceGoesByWholeMilliseconds(TxnsimCluster cluster) {
        var refusal = assertThrows(IllegalArgumentException.class, () -> cluster.advanceClock(Duration.ofNanos(1_500_000)));
        assertTrue(refusal.getMessage().contains("no whole number of milliseconds"), refusal.getMessage());
    }

    @Test
    void aRefusalSaysWhatToDo(TxnsimCluster cluster) {
        TxnsimException refusal = assertThrows(TxnsimException.class, () -> cluster.topic("nope"));
        assertEquals(404, refusal.status());
        assertTrue(refusal.getMessage().contains("GET /api/v1/topics lists them"), refusal.getMessage());
    }

    @Test
    void aFaultThatNeverStruckIsNamed(TxnsimCluster cluster) {
        cluster.faults().arm(Faults.Rule.at("client.request", "idle").api("EndTxn").drop());
        AssertionError failure = assertThrows(AssertionError.class, cluster.faults()::verify);
        assertTrue(failure.getMessage().contains("idle"), failure.getMessage());
        assertTrue(cluster.report().contains("idle: 0 matched, 0 struck"), cluster.report());
        cluster.faults().disarmAll();
        cluster.faults().forget();
    }

    @Test
    void aSnapshotIsComeBackTo(TxnsimCluster cluster) {
        cluster.createTopic("more", 2, Map.of("cleanup.policy", "compact"));
        cluster.snapshot("with-more");
        cluster.reset();
        assertThrows(TxnsimException.class, () -> cluster.topic("more"));
        cluster.reset("with-more");
        assertEquals("compact", cluster.topic("more").get("configs").get("cleanup.policy").asText());
    }
}
