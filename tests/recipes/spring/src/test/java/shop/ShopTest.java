package shop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.test.annotation.DirtiesContext;
import txnsim.junit.Faults;
import txnsim.junit.Txnsim;
import txnsim.junit.TxnsimCluster;

@Txnsim( // above @SpringBootTest: the brokers are there before the context is made
        bootstrapServersProperty = "spring.kafka.bootstrap-servers",
        settings = "preset=tests",
        resets = false)
@SpringBootTest
@DirtiesContext // the application ends before its brokers
class ShopTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final AtomicInteger FAILURES = new AtomicInteger();

    @Autowired private KafkaTemplate<String, String> kafka;

    @TestConfiguration
    static class OneFailure {
        @Bean
        ShopApplication.Notifier notifier() {
            return order -> {
                // The receipt is written by now, and not committed.
                if (order.equals("order 7") && FAILURES.getAndIncrement() == 0) {
                    throw new IllegalStateException("no network");
                }
            };
        }
    }

    @Test
    void eachOrderHasOneReceiptThoughTheServiceFailsInTheMiddle(TxnsimCluster cluster) {
        List<String> given = IntStream.range(0, 20).mapToObj(number -> "order " + number).toList();
        assertThatThrownBy(() -> write(given, "the shop is closed"))
                .hasMessageContaining("the shop is closed");
        write(given, null);

        awaitReceipts(cluster, given);

        assertThat(FAILURES).hasValue(2);
        everyOrderHasOneReceipt(cluster);
    }

    /** The marker of a commit is lost. The coordinator waits for it for 30 s, then sends it again. */
    @Test
    void aLostCommitMarkerDelaysAReceiptAndLosesNone(TxnsimCluster cluster) {
        cluster.faults()
                .arm(
                        Faults.Rule.at("peer.request", "lost")
                                .api("WriteTxnMarkers")
                                .topic("receipts")
                                .limit(1)
                                .drop());
        write(List.of("late order"), null);
        cluster.faults().waitUntilStruck("lost", PATIENCE);
        cluster.advanceClock(Duration.ofSeconds(31));

        awaitReceipts(cluster, List.of("late order"));

        everyOrderHasOneReceipt(cluster);
    }

    /** All orders in one transaction, or none of them. */
    private void write(List<String> given, String failure) {
        kafka.executeInTransaction(
                template -> {
                    given.forEach(order -> template.send("orders", order, order).join());
                    if (failure != null) {
                        throw new IllegalStateException(failure);
                    }
                    return null;
                });
    }

    private static void awaitReceipts(TxnsimCluster cluster, List<String> orders) {
        await().atMost(PATIENCE).until(() -> cluster.committed("receipts").containsAll(receipts(orders)));
    }

    private static void everyOrderHasOneReceipt(TxnsimCluster cluster) {
        cluster.assertExactlyOnce(receipts(cluster.committed("orders")), "receipts");
        cluster.assertNoHangingTransactions();
    }

    private static List<String> receipts(List<String> orders) {
        return orders.stream().map(order -> "receipt of " + order).toList();
    }
}
