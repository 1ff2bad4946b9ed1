package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;

class CounterSourceTest {
    private static final int PARTITIONS = 3;
    private static final int FIRST = 300;
    private static final int LAST = 400;

    /** Names of its own: tests share the cluster, and nothing else. */
    private final String run = UUID.randomUUID().toString();

    private final String name = "connect-" + run;
    private final String topic = "counted-" + run;

    @Test
    void everyNumberIsThereOnceThoughTheWorkerIsKilled() throws Exception {
        try (var cluster = Txnsim.get()) {
            createTopic(cluster.bootstrap());
            try (var worker = Worker.start(cluster.bootstrap(), name)) {
                until(() -> worker.configure("counter", config(FIRST)));
                until(() -> read(cluster.bootstrap()).size() >= 100);
                worker.kill();
            }
            int atKill = read(cluster.bootstrap()).size();
            assertTrue(atKill < FIRST * CounterSource.SHARDS, "killed too late: " + atKill);

            try (var worker = Worker.start(cluster.bootstrap(), name)) {
                until(() -> read(cluster.bootstrap()).size() >= FIRST * CounterSource.SHARDS);
                // New tasks for the old ones, whose producers the leader fences first.
                until(() -> worker.configure("counter", config(LAST)));
                until(() -> read(cluster.bootstrap()).size() >= LAST * CounterSource.SHARDS);
            }
            assertEquals(expected(), read(cluster.bootstrap()).stream().sorted().toList());
        }
    }

    private Map<String, String> config(int until) {
        return Map.of(
                "connector.class", "shop.CounterSource",
                "tasks.max", "2",
                "exactly.once.support", "required",
                "transaction.boundary", "poll",
                "topic", topic,
                "until", Integer.toString(until));
    }

    private List<String> expected() {
        return IntStream.range(0, CounterSource.SHARDS)
                .boxed()
                .flatMap(shard -> IntStream.range(0, LAST).mapToObj(count -> shard + "-" + count))
                .sorted()
                .toList();
    }

    private void createTopic(String bootstrap) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            var wanted = new NewTopic(topic, Optional.of(PARTITIONS), Optional.empty());
            admin.createTopics(List.of(wanted)).all().get();
        }
    }

    /** All that read_committed shows: the end it knows is the last stable offset. */
    private List<String> read(String bootstrap) {
        List<String> values = new ArrayList<>();
        Map<String, Object> settings =
                Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
        var strings = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, strings, strings)) {
            var partitions =
                    IntStream.range(0, PARTITIONS)
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

    private static void until(Callable<Boolean> condition) throws Exception {
        long giveUp = System.nanoTime() + Duration.ofSeconds(90).toNanos();
        while (!condition.call()) {
            assertTrue(System.nanoTime() < giveUp, "not in time");
            Thread.sleep(50);
        }
    }
}
