import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * The producer of the story in which a Produce request arrives after the abort.
 *
 * <p>{@code LateProduce BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS [--delivery-timeout-ms MS]
 * [--request-timeout-ms MS]}: one record in a transaction, given up on when the delivery times out, then an abort. Nothing
 * is sent to that partition afterwards: a later transaction of this producer would adopt the late record. One JSON object
 * per line says what the application saw; exit status 0 iff the record was not acknowledged and the abort succeeded.
 */
public final class LateProduce {
    private LateProduce() {}

    public static void main(String[] args) throws InterruptedException {
        List<String> words = new ArrayList<>(List.of(args));
        int deliveryTimeout = Integer.parseInt(ClientCheck.option(words, "--delivery-timeout-ms", "150"));
        int requestTimeout = Integer.parseInt(ClientCheck.option(words, "--request-timeout-ms", "100"));
        if (words.size() != 5) {
            System.err.println("usage: LateProduce BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS");
            System.exit(2);
        }
        java.util.Map<String, Object> config =
                java.util.Map.of(
                        "transactional.id", words.get(1),
                        "linger.ms", 0,
                        "retry.backoff.ms", 10,
                        "delivery.timeout.ms", deliveryTimeout,
                        "request.timeout.ms", requestTimeout);
        ProducerRecord<String, String> record =
                new ProducerRecord<>(
                        words.get(2), Integer.parseInt(words.get(3)), Long.parseLong(words.get(4)), null, "late");
        boolean asTold;
        try (Lab lab = Lab.at(words.get(0))) {
            KafkaProducer<String, String> producer = lab.producer(config);
            producer.initTransactions();
            say("initialized", "");
            producer.partitionsFor(record.topic()); // so that the delivery timeout is spent on the Produce alone
            asTold = produceInVain(producer, record) & abort(producer);
            producer.close(Duration.ZERO);
        }
        System.exit(asTold ? 0 : 1);
    }

    private static boolean produceInVain(KafkaProducer<String, String> producer, ProducerRecord<String, String> record)
            throws InterruptedException {
        producer.beginTransaction();
        try {
            RecordMetadata acknowledged = producer.send(record).get();
            say("produced", ",\"offset\":" + acknowledged.offset());
            return false;
        } catch (ExecutionException failure) {
            say("produce-failed", ",\"sent\":" + wasSent(producer) + because(failure.getCause()));
            return true;
        }
    }

    private static boolean abort(KafkaProducer<String, String> producer) {
        try {
            producer.abortTransaction();
            say("aborted", "");
            return true;
        } catch (RuntimeException failure) {
            say("abort-failed", because(failure));
            return false;
        }
    }

    /** Whether the record was ever on the wire: the delivery may also time out before that. */
    private static boolean wasSent(KafkaProducer<String, String> producer) {
        return producer.metrics().values().stream()
                .filter(metric -> metric.metricName().name().equals("record-send-total"))
                .anyMatch(metric -> ((Number) metric.metricValue()).doubleValue() > 0);
    }

    private static void say(String event, String more) {
        System.out.println("{\"client\":\"kafka-clients\",\"event\":\"" + event + "\"" + more + "}");
        System.out.flush();
    }

    private static String because(Throwable failure) {
        String message = String.valueOf(failure.getMessage()).replaceAll("[\\\\\"\\p{Cntrl}]", " ");
        return ",\"error\":\"" + failure.getClass().getSimpleName() + "\",\"message\":\"" + message + "\"";
    }
}
