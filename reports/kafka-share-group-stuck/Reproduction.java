import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A share group gets nothing more behind an aborted transaction of as many records as it may lock. */
public final class Reproduction {
    private static final String GROUP = "jobs";
    private static final int LOCKS = 100;
    private static final int WAIT_S = 60;

    public static void main(String[] words) throws Exception {
        String locks = "" + LOCKS;
        try (Brokers brokers = new Brokers(1, Map.of("group.share.partition.max.record.locks", locks, "group.share.min.partition.max.record.locks", locks))) {
            boolean control = play(brokers, "control", LOCKS - 20);
            boolean defect = !play(brokers, "topic", LOCKS + 20);
            Brokers.say(control && defect ? "REPRODUCED" : "NOT REPRODUCED");
            System.exit(control && defect ? 0 : 1);
        }
    }

    /** Whether the group gets a record behind an aborted transaction of so many records. */
    private static boolean play(Brokers brokers, String topic, int aborted) throws Exception {
        String group = GROUP + "-" + topic;
        brokers.create(topic, List.of(List.of(1)), Map.of());
        configure(brokers, group, "share.isolation.level", "read_committed");
        configure(brokers, group, "share.auto.offset.reset", "earliest");
        try (var worker = new KafkaShareConsumer<>(clients(brokers, "group.id", group), new StringDeserializer(), new StringDeserializer())) {
            worker.subscribe(Set.of(topic));
            write(brokers, topic, "early", 1, null);
            Brokers.say(topic + ": " + LOCKS + " locks, " + aborted + " aborted records. The group gets " + polled(worker, "early"));
            write(brokers, topic, "lost", aborted, "app-" + topic);
            write(brokers, topic, "later", 1, null);
            List<String> got = polled(worker, "later");
            Brokers.say("  behind the aborted transaction the share group gets " + got + (got.isEmpty() ? " within " + WAIT_S + " s" : ""));
            Brokers.say("  a read_committed consumer gets " + read(brokers, topic));
            boolean goesOn = !got.isEmpty();
            if (!goesOn) {
                try {
                    configure(brokers, group, "share.partition.max.record.locks", "2000");
                    Brokers.say("  with 2000 locks the share group gets " + polled(worker, "later"));
                } catch (ExecutionException refused) {
                    Brokers.say("  this release has no limit of locks for one group");
                }
            }
            return goesOn;
        }
    }

    private static void configure(Brokers brokers, String group, String name, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        brokers.admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(change))).all().get();
    }

    private static Map<String, Object> clients(Brokers brokers, String name, String value) {
        return Map.of("bootstrap.servers", brokers.bootstrap(), name, value);
    }

    /** Records outside of a transaction, or in one that is aborted. */
    private static void write(Brokers brokers, String topic, String value, int count, String transactionalId) throws Exception {
        boolean aborts = transactionalId != null;
        var settings = clients(brokers, aborts ? "transactional.id" : "client.id", aborts ? transactionalId : "writer");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (aborts) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int at = 0; at < count; at++) producer.send(new ProducerRecord<>(topic, value));
            producer.flush();
            if (aborts) producer.abortTransaction();
        }
    }

    /** What the worker gets, up to the value that it waits for. */
    private static List<String> polled(KafkaShareConsumer<String, String> worker, String wanted) {
        List<String> found = new ArrayList<>();
        long end = System.nanoTime() + WAIT_S * 1_000_000_000L;
        while (!found.contains(wanted) && System.nanoTime() < end) worker.poll(Duration.ofMillis(500)).forEach(one -> found.add(one.value()));
        worker.commitSync();
        return found;
    }

    private static List<String> read(Brokers brokers, String topic) {
        List<String> found = new ArrayList<>();
        var settings = clients(brokers, "isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition at = new TopicPartition(topic, 0);
            consumer.assign(Set.of(at));
            consumer.seekToBeginning(Set.of(at));
            long end = consumer.endOffsets(Set.of(at)).get(at);
            while (consumer.position(at) < end) consumer.poll(Duration.ofMillis(200)).forEach(one -> found.add(one.value()));
        }
        return found;
    }
}
