import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The log of a share partition begins later than a gap in its stored state. The group gets nothing any more. */
public final class Reproduction {
    private static final int RECORDS = 10;
    private static final int ACCEPTED_FROM = 5;
    private static final int LOG_START = 7;
    private static final int GOOD_S = 30;
    private static final int NOTHING_S = 20;

    public static void main(String[] words) throws Exception {
        try (Brokers brokers = new Brokers(1, Map.of())) {
            boolean control = play(brokers, "control", false);
            boolean defect = !play(brokers, "topic", true);
            Brokers.say(control && defect ? "REPRODUCED" : "NOT REPRODUCED");
            System.exit(control && defect ? 0 : 1);
        }
    }

    /** Whether the group gets a record that is written in the end. */
    private static boolean play(Brokers brokers, String topic, boolean deletes) throws Exception {
        String group = "jobs-" + topic;
        TopicPartition at = new TopicPartition(topic, 0);
        var change = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        brokers.admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(change))).all().get();
        brokers.create(topic, List.of(List.of(1)), Map.of());
        for (int value = 0; value < RECORDS; value++) write(brokers, topic, "" + value);
        var worker = worker(brokers, group, "explicit");
        worker.subscribe(Set.of(topic));
        List<ConsumerRecord<String, String>> held = new ArrayList<>();
        Brokers.await("the group gets the records", 60, () -> {
            worker.poll(Duration.ofMillis(500)).forEach(held::add);
            return !held.isEmpty();
        });
        Brokers.say(topic + ": the group gets " + held.stream().map(ConsumerRecord::value).toList());
        for (var one : held) if (one.offset() >= ACCEPTED_FROM) worker.acknowledge(one, AcknowledgeType.ACCEPT);
        worker.commitSync().values().forEach(failed -> failed.ifPresent(error -> { throw error; }));
        Brokers.say("  it has accepted those from " + ACCEPTED_FROM + " on, and is at work on the others");
        restart(brokers);
        worker.close(Duration.ZERO);
        if (deletes) {
            brokers.admin.deleteRecords(Map.of(at, RecordsToDelete.beforeOffset(LOG_START))).all().get();
            Brokers.say("  kafka-delete-records: the log begins at offset " + LOG_START);
        }
        write(brokers, topic, "new");
        boolean got = has(brokers, group, topic, deletes ? NOTHING_S : GOOD_S);
        if (!got) {
            Brokers.say("  a consumer group gets " + consumed(brokers, topic));
            restart(brokers);
            got = has(brokers, group, topic, NOTHING_S);
            Brokers.await("no member is left", 90, () -> {
                brokers.admin.alterShareGroupOffsets(group, Map.of(at, (long) LOG_START)).all().get();
                return true;
            });
            Brokers.say("  the group's start offset is set to " + LOG_START);
            has(brokers, group, topic, GOOD_S);
        }
        return got;
    }

    private static void restart(Brokers brokers) throws Exception {
        brokers.kill(1);
        brokers.start(1);
        Brokers.await("the broker is back", 60, () -> brokers.admin.describeCluster().nodes().get().size() == 1);
        Brokers.say("  the broker is started again");
    }

    private static boolean has(Brokers brokers, String group, String topic, int seconds) throws Exception {
        List<String> found = new ArrayList<>();
        try (var worker = worker(brokers, group, "implicit")) {
            worker.subscribe(Set.of(topic));
            Brokers.within(seconds, () -> {
                worker.poll(Duration.ofMillis(500)).forEach(one -> found.add(one.value()));
                return found.contains("new");
            });
        }
        var at = new TopicPartition(topic, 0);
        var offsets = brokers.admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec().topicPartitions(List.of(at))));
        var start = offsets.partitionsToOffsetInfo(group).get().get(at);
        Brokers.say("  the group gets " + found + "; its start offset is " + (start == null ? "none" : start.startOffset()));
        return found.contains("new");
    }

    private static List<String> consumed(Brokers brokers, String topic) {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers.bootstrap(), "auto.offset.reset", "earliest");
        List<String> found = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(Set.of(new TopicPartition(topic, 0)));
            for (int left = 20; left > 0 && !found.contains("new"); left--) consumer.poll(Duration.ofMillis(500)).forEach(one -> found.add(one.value()));
        }
        return found;
    }

    private static KafkaShareConsumer<String, String> worker(Brokers brokers, String group, String mode) {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers.bootstrap(), "group.id", group, "share.acknowledgement.mode", mode);
        return new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void write(Brokers brokers, String topic, String value) throws Exception {
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", brokers.bootstrap()), new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
    }
}
