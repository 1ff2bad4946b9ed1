import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/**
 * A transaction on two partitions is committed while one of them has no leader (KAFKA-20734).
 *
 * <p>{@code CommitWithoutALeader BOOTSTRAP}, against two brokers. Who starts it kills broker 2 after {@code kill-2} and
 * starts it again after {@code start-2}, with a line to standard input when that is done. One JSON object per line says
 * what the clients saw; exit status 0 iff the story came about, however it ended.
 */
public final class CommitWithoutALeader {
    private static final int ALIVE = 1;
    private static final int KILLED = 2;
    /** In which a coordinator that waits for a leader is seen to wait, and a record that was committed has to come. */
    private static final Duration ENOUGH = Duration.ofSeconds(5);

    private static final BufferedReader HANDS = new BufferedReader(new InputStreamReader(System.in));

    private CommitWithoutALeader() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: CommitWithoutALeader BOOTSTRAP");
            System.exit(2);
        }
        try (Lab lab = Lab.at(args[0])) {
            TopicPartition lost = topicOn(KILLED, "t", lab);
            TopicPartition kept = topicOn(ALIVE, "u", lab);
            String id = idOfCoordinator(ALIVE, lab);
            KafkaProducer<String, String> producer = lab.transactional(id);
            producer.beginTransaction();
            long lostAt = Lab.send(producer, lost, "one order");
            long keptAt = Lab.send(producer, kept, "one payment");
            say("produced", "\"t-0\":" + lostAt + ",\"u-0\":" + keptAt);

            ask("kill-2");
            Lab.await("t-0 has no leader", () -> lab.leaders(lost.topic()).isEmpty());
            long before = System.nanoTime();
            producer.commitTransaction();
            say("committed", "\"after_ms\":" + (System.nanoTime() - before) / 1_000_000);
            say("coordinator", "\"state\":\"" + settled(id, lab) + "\"");

            ask("start-2");
            Lab.await("t-0 has a leader", () -> !lab.leaders(lost.topic()).isEmpty());
            within(ENOUGH, () -> lab.committed(lost).equals(List.of("one order")));
            say("coordinator", "\"state\":\"" + lab.describe(id).state() + "\"");
            tell("t-0", lost, id, lab);
            tell("u-0", kept, id, lab);
            producer.close(Duration.ZERO);
        }
    }

    private static TopicPartition topicOn(int broker, String stem, Lab lab) throws Exception {
        String topic = lab.named(stem);
        lab.admin.createTopics(List.of(new NewTopic(topic, Map.of(0, List.of(broker))))).all().get();
        Lab.await(topic + " has a leader", () -> !lab.leaders(topic).isEmpty());
        return new TopicPartition(topic, 0);
    }

    /** A transactional id whose coordinator does not die: the first of several. */
    private static String idOfCoordinator(int broker, Lab lab) throws Exception {
        for (int number = 0; number < 100; number++) {
            String id = lab.named("app-" + number);
            lab.transactional(id).close();
            if (lab.describe(id).coordinatorId() == broker) {
                return id;
            }
        }
        throw new AssertionError("broker " + broker + " coordinates none of 100 transactional ids");
    }

    /** Where the coordinator stands when it is through, or has had enough time to be. */
    private static TransactionState settled(String id, Lab lab) throws Exception {
        within(ENOUGH, () -> lab.describe(id).state() == TransactionState.COMPLETE_COMMIT);
        return lab.describe(id).state();
    }

    private static void within(Duration patience, Callable<Boolean> condition) throws Exception {
        try {
            Lab.await("it", patience, condition);
        } catch (TimeoutException noMatter) {
            // What is the case instead is said next.
        }
    }

    private static void tell(String name, TopicPartition at, String id, Lab lab) throws Exception {
        Optional<Long> open = lab.openSince(at, lab.describe(id).producerId());
        say(
                name,
                String.format(
                        Locale.ROOT,
                        "\"read_committed\":%d,\"read_uncommitted\":%d,\"open_since\":%s",
                        lab.committed(at).size(),
                        lab.uncommitted(at).size(),
                        open.map(String::valueOf).orElse("null")));
    }

    private static void ask(String hand) throws Exception {
        say("please", "\"do\":\"" + hand + "\"");
        if (HANDS.readLine() == null) {
            throw new IllegalStateException("standard input ended before " + hand);
        }
    }

    private static void say(String event, String rest) {
        System.out.println("{\"event\":\"" + event + "\"," + rest + "}");
        System.out.flush();
    }
}
