package shop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

@ExtendWith(TxnsimExtension.class) // before Spring's, which makes the context
@SpringBootTest
class ShopTest {
    private static final AtomicInteger FAILURES = new AtomicInteger();

    @Autowired private KafkaTemplate<String, String> kafka;
    @Autowired private ConsumerFactory<String, String> consumers;
    @Autowired private KafkaAdmin admin;

    @Value("${shop.orders}") private String orders;
    @Value("${shop.receipts}") private String receipts;
    @Value("${spring.kafka.consumer.group-id}") private String group;

    /** Names of its own: tests share the cluster, and nothing else. */
    @DynamicPropertySource
    static void names(DynamicPropertyRegistry properties) {
        String run = UUID.randomUUID().toString();
        properties.add("shop.orders", () -> "orders-" + run);
        properties.add("shop.receipts", () -> "receipts-" + run);
        properties.add("spring.kafka.consumer.group-id", () -> "shop-" + run);
        properties.add("spring.kafka.producer.transaction-id-prefix", () -> "shop-" + run + "-");
    }

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
    void eachOrderHasOneReceiptThoughTheServiceFailsInTheMiddle() {
        List<String> given = IntStream.range(0, 20).mapToObj(number -> "order " + number).toList();
        assertThatThrownBy(() -> write(given, "the shop is closed"))
                .hasMessageContaining("the shop is closed");
        Map<TopicPartition, Long> ends = write(given, null);

        await().atMost(Duration.ofSeconds(60)).until(() -> done(ends));

        assertThat(FAILURES).hasValue(2);
        assertThat(read(receipts))
                .containsExactlyInAnyOrderElementsOf(
                        given.stream().map(order -> "receipt of " + order).toList());
    }

    /** All orders in one transaction, or none of them; answers where each partition ends. */
    private Map<TopicPartition, Long> write(List<String> given, String failure) {
        return kafka.executeInTransaction(
                template -> {
                    Map<TopicPartition, Long> ends = new HashMap<>();
                    for (String order : given) {
                        var written = template.send(orders, order, order).join().getRecordMetadata();
                        ends.put(
                                new TopicPartition(orders, written.partition()), written.offset() + 1);
                    }
                    if (failure != null) {
                        throw new IllegalStateException(failure);
                    }
                    return ends;
                });
    }

    private boolean done(Map<TopicPartition, Long> ends) throws Exception {
        try (var client = Admin.create(admin.getConfigurationProperties())) {
            var positions =
                    client.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            return ends.entrySet().stream()
                    .allMatch(
                            end ->
                                    positions.get(end.getKey()) != null
                                            && positions.get(end.getKey()).offset()
                                                    >= end.getValue());
        }
    }

    /** All that read_committed shows: the end it knows is the last stable offset. */
    private List<String> read(String topic) {
        List<String> values = new ArrayList<>();
        try (var consumer = consumers.createConsumer("reader-" + UUID.randomUUID(), "reader")) {
            var partitions =
                    IntStream.range(0, ShopApplication.PARTITIONS)
                            .mapToObj(partition -> new TopicPartition(topic, partition))
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
}
