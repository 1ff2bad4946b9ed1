import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/**
 * Leaves a transaction open: {@code OpenTransaction BOOTSTRAP TRANSACTIONAL_ID TOPIC_STEM} produces one record in a
 * transaction to a new topic and dies without a word, as a crashed application does. Prints the topic and the ids of all
 * brokers as one JSON object.
 */
public final class OpenTransaction {
    private OpenTransaction() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            System.err.println("usage: OpenTransaction BOOTSTRAP TRANSACTIONAL_ID TOPIC_STEM");
            System.exit(2);
        }
        Lab lab = Lab.at(args[0]);
        TopicPartition at = lab.newTopic(args[2]);
        // Longer than whoever looks at it takes, even where every look is a JVM of its own.
        Map<String, Object> patient = Map.of("transaction.timeout.ms", 600_000);
        KafkaProducer<String, String> producer = lab.transactional(args[1], patient);
        producer.beginTransaction();
        Lab.send(producer, at, "open");
        String brokers =
                lab.admin.describeCluster().nodes().get().stream()
                        .map(Node::idString)
                        .collect(Collectors.joining(",", "[", "]"));
        System.out.println("{\"topic\":\"" + at.topic() + "\",\"brokers\":" + brokers + "}");
        System.out.flush();
        Runtime.getRuntime().halt(0); // no close(): it would abort
    }
}
