import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A transaction hangs when the leader of its partition of __transaction_state moves twice while the third replica stands still. */
public final class Reproduction {
    private static final TopicPartition STATE = new TopicPartition("__transaction_state", 0);
    private static final int PAUSE_S = 2;

    public static void main(String[] words) throws Exception {
        Map<String, String> patient = Map.of("broker.session.timeout.ms", "120000", "replica.lag.time.max.ms", "120000");
        try (Brokers brokers = new Brokers(3, patient)) {
            boolean control = play(brokers, "control", false);
            boolean defect = !play(brokers, "topic", true);
            Brokers.say(control && defect ? "REPRODUCED" : "NOT REPRODUCED");
            System.exit(control && defect ? 0 : 1);
        }
    }

    /** Whether the transaction ends, and readers get what is behind it. */
    private static boolean play(Brokers brokers, String topic, boolean behind) throws Exception {
        TopicPartition at = new TopicPartition(topic, 0);
        brokers.create(topic, List.of(List.of(1)), Map.of());
        try (var producer = producer(brokers, topic)) {
            producer.initTransactions();
            brokers.move(STATE, 1);
            Brokers.say(topic + ": broker 1 leads " + STATE + ", in sync are " + inSync(brokers));
            if (behind) {
                brokers.pause(3);
                Brokers.say("  broker 3 stands still");
                TimeUnit.SECONDS.sleep(PAUSE_S); // the fetch that waits at broker 1 is answered, with nothing
            }
            producer.beginTransaction();
            var written = producer.send(new ProducerRecord<>(topic, "in the transaction"));
            if (behind) TimeUnit.SECONDS.sleep(PAUSE_S); // the coordinator has appended Ongoing, and broker 2 has fetched it
            brokers.move(STATE, 2);
            Brokers.say("  broker 2 leads " + STATE + "; the record is acknowledged at " + written.get(60, TimeUnit.SECONDS).offset());
            brokers.move(STATE, 3);
            if (behind) brokers.resume(3);
            Brokers.say("  broker 3 leads " + STATE + (behind ? ", and goes on" : ""));
            Brokers.await("broker 3 coordinates", 60, () -> !state(brokers, topic).equals("none"));
            Brokers.say("  the coordinator says: " + state(brokers, topic));
            boolean committed = committed(producer);
            write(brokers, topic, "behind it");
            List<String> got = read(brokers, at);
            Brokers.say("  20 s later the coordinator says: " + state(brokers, topic) + "; open on " + at + ": " + open(brokers, at));
            Brokers.say("  a read_committed consumer gets " + got);
            return committed && got.size() == 2;
        }
    }

    private static KafkaProducer<String, String> producer(Brokers brokers, String topic) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", brokers.bootstrap(), "transactional.id", "app-" + topic));
        settings.put("transaction.timeout.ms", 60_000);
        settings.put("request.timeout.ms", 5_000);
        settings.put("linger.ms", 0);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static boolean committed(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            Brokers.say("  the commit succeeds");
            return true;
        } catch (RuntimeException refused) {
            Brokers.say("  the commit fails: " + refused.getClass().getSimpleName());
            return false;
        }
    }

    private static String state(Brokers brokers, String topic) throws Exception {
        String id = "app-" + topic;
        var all = brokers.admin.listTransactions().all().get();
        return all.stream().filter(one -> one.transactionalId().equals(id)).map(one -> "" + one.state()).findFirst().orElse("none");
    }

    private static boolean open(Brokers brokers, TopicPartition at) throws Exception {
        var producers = brokers.admin.describeProducers(Set.of(at)).all().get().get(at).activeProducers();
        return producers.stream().anyMatch(one -> one.currentTransactionStartOffset().isPresent());
    }

    private static List<Integer> inSync(Brokers brokers) throws Exception {
        return brokers.partition(STATE).isr().stream().map(one -> one.id()).sorted().toList();
    }

    private static void write(Brokers brokers, String topic, String value) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers.bootstrap());
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
    }

    /** What a reader gets in 20 seconds, up to both records. */
    private static List<String> read(Brokers brokers, TopicPartition at) {
        List<String> found = new ArrayList<>();
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers.bootstrap(), "isolation.level", "read_committed");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(Set.of(at));
            consumer.seekToBeginning(Set.of(at));
            long end = System.nanoTime() + 20_000_000_000L;
            while (found.size() < 2 && System.nanoTime() < end) consumer.poll(Duration.ofMillis(500)).forEach(one -> found.add(one.value()));
        }
        return found;
    }
}
