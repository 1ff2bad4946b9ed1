package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import txnsim.junit.Faults;
import txnsim.junit.Txnsim;
import txnsim.junit.TxnsimCluster;

@Txnsim(topics = {"orders:3", "receipts:3"}, settings = "preset=tests")
class ReceiptAppTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final List<String> ORDERS =
            IntStream.range(0, 20).mapToObj(number -> "order " + number).toList();
    private static final List<String> RECEIPTS =
            ORDERS.stream().map(order -> "receipt of " + order).toList();

    @TempDir private Path state;

    @Test
    void eachOrderHasOneReceiptThoughAThreadDiesInTheMiddle(TxnsimCluster cluster) throws Exception {
        AtomicInteger failures = new AtomicInteger();
        play(cluster, receipt -> {
            if (receipt.equals("receipt of order 7") && failures.getAndIncrement() == 0) {
                throw new IllegalStateException("no network");
            }
        });
        assertEquals(2, failures.get());
    }

    /** The answer to the first commit is lost: the producer asks again, and the coordinator says yes again. */
    @Test
    void aCommitWhoseAnswerIsLostIsNotDoneTwice(TxnsimCluster cluster) throws Exception {
        cluster.faults().arm(Faults.Rule.at("client.response", "unheard").api("EndTxn").limit(1)
                .does(Map.of("do", "disconnect")));
        play(cluster, receipt -> {});
    }

    private void play(TxnsimCluster cluster, Consumer<String> told) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", cluster.bootstrap());
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            ORDERS.forEach(order -> producer.send(new ProducerRecord<>("orders", order, order)));
        }
        try (var streams = ReceiptApp.of(cluster.bootstrap(), state.toString(), told)) {
            streams.start();
            long giveUp = System.nanoTime() + PATIENCE.toNanos();
            while (cluster.committed("receipts").size() < ORDERS.size()) {
                assertTrue(System.nanoTime() < giveUp, "not in time");
                Thread.sleep(50);
                cluster.advanceClock(Duration.ofMillis(200));
            }
        }
        cluster.assertExactlyOnce(RECEIPTS, "receipts");
        cluster.assertNoHangingTransactions();
    }
}
