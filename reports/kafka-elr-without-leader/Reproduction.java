import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.TopicPartition;

/** A partition that was given fewer replicas has no leader any more after its broker was killed and came back. */
public final class Reproduction {
    private static final int WAIT_S = 60;

    public static void main(String[] words) throws Exception {
        try (Brokers brokers = new Brokers(3, Map.of("broker.session.timeout.ms", "9000"))) {
            boolean control = play(brokers, "control", 1);
            boolean defect = !play(brokers, "topic", 2);
            Brokers.say(control && defect ? "REPRODUCED" : "NOT REPRODUCED");
            System.exit(control && defect ? 0 : 1);
        }
    }

    /** Whether partition 1 has its leader back. */
    private static boolean play(Brokers brokers, String topic, int minInSync) throws Exception {
        TopicPartition one = new TopicPartition(topic, 1);
        brokers.create(topic, List.of(List.of(1, 2, 3), List.of(1, 2, 3)), Map.of("min.insync.replicas", "" + minInSync));
        brokers.reassign(one, List.of(2));
        Brokers.say(topic + ", min.insync.replicas " + minInSync + ". Partition 1 was reassigned to broker 2 alone");
        Brokers.say("  " + described(brokers, one));
        brokers.kill(2);
        Brokers.await(topic + "-1 has no leader", WAIT_S, () -> brokers.leader(one).isEmpty());
        Brokers.say("  broker 2 was killed: " + described(brokers, one));
        brokers.start(2);
        Brokers.await("broker 2 is back", WAIT_S, () -> brokers.admin.describeCluster().nodes().get().size() == 3);
        boolean led = Brokers.within(WAIT_S, () -> brokers.leader(one).equals(Optional.of(2)));
        Brokers.say("  broker 2 is back" + (led ? ": " : ", and " + WAIT_S + " s later: ") + described(brokers, one));
        return led;
    }

    private static String described(Brokers brokers, TopicPartition at) throws Exception {
        var one = brokers.partition(at);
        return "leader " + brokers.leader(at).map(id -> "" + id).orElse("none") + ", replicas " + ids(one.replicas()) + ", isr " + ids(one.isr())
            + ", eligible " + ids(one.elr()) + ", last known " + ids(one.lastKnownElr());
    }

    private static List<Integer> ids(List<org.apache.kafka.common.Node> nodes) {
        return nodes == null ? List.of() : nodes.stream().map(org.apache.kafka.common.Node::id).toList();
    }
}
