import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group that accepts all it gets, until its input ends.
 *
 * <p>{@code ShareWorker BOOTSTRAP GROUP TOPIC} prints a line for what it sees: {@code got PARTITION OFFSET COUNT}, {@code acked
 * PARTITION OFFSET} once a broker has said so, {@code failed PARTITION ERROR}, {@code error TEXT}; each with nanoseconds of
 * the wall clock in front.
 */
public final class ShareWorker {
    private ShareWorker() {}

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", args[0],
                "group.id", args[1],
                "client.id", "java",
                "share.acknowledgement.mode", "explicit",
                "metadata.max.age.ms", "1000",
                "request.timeout.ms", "5000");
        try (var member = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            member.subscribe(List.of(args[2]));
            while (System.in.available() == 0) {
                try {
                    work(member);
                } catch (KafkaException failure) {
                    say("error " + failure);
                }
            }
        }
    }

    /** It works a while on what it gets, so that kills meet records that are held. */
    private static void work(KafkaShareConsumer<String, String> member) throws InterruptedException {
        Map<Integer, List<Long>> taken = new HashMap<>();
        for (ConsumerRecord<String, String> each : member.poll(Duration.ofMillis(200))) {
            say("got " + each.partition() + " " + each.offset() + " " + each.deliveryCount().orElse((short) -1));
            member.acknowledge(each, AcknowledgeType.ACCEPT);
            taken.computeIfAbsent(each.partition(), any -> new ArrayList<>()).add(each.offset());
        }
        if (!taken.isEmpty()) {
            Thread.sleep(100);
        }
        Map<TopicIdPartition, Optional<KafkaException>> results = member.commitSync(Duration.ofSeconds(15));
        results.forEach((place, failure) -> {
            if (failure.isPresent()) {
                say("failed " + place.partition() + " " + failure.get().getClass().getSimpleName());
            } else {
                taken.getOrDefault(place.partition(), List.of()).forEach(offset -> say("acked " + place.partition() + " " + offset));
            }
        });
    }

    private static synchronized void say(String text) {
        var now = java.time.Instant.now();
        System.out.println(now.getEpochSecond() * 1_000_000_000L + now.getNano() + " " + text);
    }
}
