import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The first state of a share partition is asked for twice. The later request wipes out what the group acknowledged after the earlier one. */
public final class Reproduction {
    private static final TopicPartition GROUPS = new TopicPartition("__consumer_offsets", 0);
    private static final TopicPartition STATES = new TopicPartition("__share_group_state", 0);
    private static final List<String> VALUES = List.of("first", "second");
    private static final int WAIT_S = 45;
    private static final int NOTHING_S = 8;

    public static void main(String[] words) throws Exception {
        try (Brokers brokers = new Brokers(3, Map.of("group.share.initialize.retry.interval.ms", "15000"))) {
            boolean control = play(brokers, "control", false).isEmpty();
            boolean defect = play(brokers, "topic", true).equals(VALUES);
            Brokers.say(control && defect ? "REPRODUCED" : "NOT REPRODUCED");
            System.exit(control && defect ? 0 : 1);
        }
    }

    /** What a group is given of a topic after it has accepted all, and its only member has left and come back. */
    private static List<String> play(Brokers brokers, String topic, boolean standsStill) throws Exception {
        String group = "jobs-" + topic;
        String earlier = topic + "-earlier";
        Map<String, Object> clients = Map.of("bootstrap.servers", "127.0.0.1:" + brokers.port(1), "request.timeout.ms", 4_000, "group.id", group);
        configure(brokers, group, "share.auto.offset.reset", "earliest");
        for (String one : List.of(earlier, topic)) {
            brokers.create(one, List.of(List.of(1)), Map.of());
            write(brokers, one);
        }
        if (standsStill) {
            brokers.reassign(GROUPS, List.of(1, 3)); // the group's own records do not wait for broker 2
            brokers.move(GROUPS, 1);
            brokers.move(STATES, 2);
        }
        try (var worker = worker(clients)) {
            worker.subscribe(Set.of(earlier));
            Brokers.say(topic + ": of another topic the group gets, and accepts, " + accepted(worker, WAIT_S));
            if (standsStill) {
                brokers.pause(2);
                Brokers.say("  broker 2, which is the share coordinator, stands still");
            }
            long begin = System.nanoTime();
            worker.subscribe(Set.of(topic));
            Brokers.say("  the group subscribes to this topic. It gets, and accepts, " + accepted(worker, WAIT_S) + after(standsStill, begin));
            String before = stored(clients, group, topic);
            Brokers.say("  the share coordinator has " + before);
            if (standsStill) {
                boolean other = Brokers.within(WAIT_S, () -> !stored(clients, group, topic).equals(before));
                Brokers.say("  it has " + stored(clients, group, topic) + after(other, begin));
                brokers.resume(2);
                Brokers.say("  broker 2 goes on");
            }
        }
        try (var worker = worker(clients)) {
            worker.subscribe(Set.of(topic));
            List<String> again = accepted(worker, standsStill ? WAIT_S : NOTHING_S);
            Brokers.say("  the member has left and is back. It gets " + again);
            return again;
        }
    }

    private static String after(boolean told, long begin) {
        return told ? ", after " + Math.round((System.nanoTime() - begin) / 1e9) + " s" : "";
    }

    private static void configure(Brokers brokers, String group, String name, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        brokers.admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(change))).all().get();
    }

    private static void write(Brokers brokers, String topic) throws Exception {
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", brokers.bootstrap()), new StringSerializer(), new StringSerializer())) {
            for (String value : VALUES) producer.send(new ProducerRecord<>(topic, value)).get();
        }
    }

    private static KafkaShareConsumer<String, String> worker(Map<String, Object> clients) {
        return new KafkaShareConsumer<>(clients, new StringDeserializer(), new StringDeserializer());
    }

    private static List<String> accepted(KafkaShareConsumer<String, String> worker, int seconds) {
        List<String> found = new ArrayList<>();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (found.size() < VALUES.size() && System.nanoTime() < end) {
            worker.poll(Duration.ofMillis(500)).forEach(one -> found.add(one.value()));
            worker.commitSync().values().forEach(failed -> failed.ifPresent(error -> { throw error; }));
        }
        return found;
    }

    private static String stored(Map<String, Object> clients, String group, String topic) throws Exception {
        TopicPartition at = new TopicPartition(topic, 0);
        var settings = Map.of("bootstrap.servers", clients.get("bootstrap.servers"), "request.timeout.ms", 4_000);
        for (int left = 10; ; left--) {
            try (Admin admin = Admin.create(settings)) {
                var offsets = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec().topicPartitions(List.of(at))));
                var found = offsets.partitionsToOffsetInfo(group).get().get(at);
                return found == null ? "no start offset" : "start offset " + found.startOffset() + ", lag " + found.lag().map(Object::toString).orElse("unknown");
            } catch (ExecutionException failed) {
                if (left == 0) throw failed;
            }
        }
    }
}
