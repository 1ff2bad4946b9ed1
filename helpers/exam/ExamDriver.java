import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** kafka-clients sits the exam of txnsim: docs/exam.md. */
public final class ExamDriver {
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\":(?:\"([^\"]*)\"|(-?\\d+|true|false)|(\\[\\[.*?]]))");
    private static final Pattern OFFSET = Pattern.compile("\\[\"([^\"]*)\",(\\d+),(\\d+)]");

    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();
    private long patienceMs = 30_000;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err); // a library that prints must not write between the answers
        ExamDriver driver = new ExamDriver();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Map<String, String> command = new HashMap<>();
            for (Matcher field = FIELD.matcher(line); field.find(); ) {
                command.put(field.group(1), IntStream.of(2, 3, 4).mapToObj(field::group).filter(one -> one != null).findFirst().get());
            }
            String told;
            try {
                told = "\"ok\":true" + driver.answer(command.get("do"), command);
            } catch (Exception raised) {
                Throwable error = raised instanceof ExecutionException ? raised.getCause() : raised;
                told = "\"ok\":false,\"error\":" + described(error);
            }
            answers.println("{\"id\":" + command.get("id") + "," + told + "}");
        }
        Runtime.getRuntime().halt(0); // producers that hang must not keep the process
    }

    /** The Javadoc of KafkaProducer: close on these; call again after a time-out; abort on every other KafkaException. */
    private static String described(Throwable error) {
        boolean fatal = error instanceof ProducerFencedException || error instanceof OutOfOrderSequenceException
                || error instanceof AuthorizationException || error instanceof UnsupportedVersionException;
        boolean retriable = error instanceof TimeoutException || error instanceof InterruptException;
        boolean abortable = error instanceof KafkaException && !fatal && !retriable;
        String name = error instanceof UnsupportedOperationException ? "UNSUPPORTED_COMMAND" : error.getClass().getSimpleName();
        return String.format(
                "{\"name\":%s,\"class\":%s,\"message\":%s,\"retriable\":%s,\"abortable\":%s,\"fatal\":%s}",
                quoted(name), quoted(error.getClass().getName()), quoted(String.valueOf(error.getMessage())), retriable, abortable, fatal);
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + '"';
    }

    private String answer(String verb, Map<String, String> command) throws Exception {
        KafkaProducer<String, String> producer = producers.get(command.get("producer"));
        KafkaConsumer<String, String> consumer = consumers.get(command.get("consumer"));
        switch (verb) {
            case "describe":
                Properties about = new Properties();
                about.load(KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties"));
                return ",\"contract\":1,\"library\":\"kafka-clients\",\"language\":\"Java\",\"version\":" + quoted(about.getProperty("version"));
            case "init":
                init(command);
                return "";
            case "begin":
                producer.beginTransaction();
                return "";
            case "send":
                return send(producer, command);
            case "send-offsets":
                Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
                for (Matcher each = OFFSET.matcher(command.get("offsets")); each.find(); ) {
                    places.put(new TopicPartition(each.group(1), Integer.parseInt(each.group(2))), new OffsetAndMetadata(Long.parseLong(each.group(3))));
                }
                producer.sendOffsetsToTransaction(places, new ConsumerGroupMetadata(command.get("group")));
                return "";
            case "commit":
                producer.commitTransaction();
                return "";
            case "abort":
                producer.abortTransaction();
                return "";
            case "consumer":
                consumers.put(command.get("consumer"), reader(command));
                return "";
            case "poll":
                return poll(consumer, Long.parseLong(command.get("timeout_ms")));
            case "seek":
                consumer.seek(new TopicPartition(command.get("topic"), Integer.parseInt(command.get("partition"))), Long.parseLong(command.get("offset")));
                return "";
            case "commit-positions":
                consumer.commitSync();
                return "";
            case "fence":
                try (Admin admin = Admin.create(Map.of(
                        "bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id")))) {
                    admin.fenceProducers(List.of(command.get("transactional_id"))).all().get();
                }
                return "";
            case "close":
                close(command.get("name"));
                return "";
            default:
                throw new UnsupportedOperationException(verb);
        }
    }

    private void init(Map<String, String> command) {
        patienceMs = Long.parseLong(command.get("patience_ms"));
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command.get("bootstrap"));
        settings.put("client.id", command.get("client_id"));
        settings.put("transactional.id", command.get("transactional_id"));
        settings.put("transaction.timeout.ms", command.get("transaction_timeout_ms"));
        settings.put("request.timeout.ms", command.get("request_timeout_ms"));
        settings.put("delivery.timeout.ms", command.get("patience_ms"));
        settings.put("max.block.ms", command.get("patience_ms"));
        if (!producers.containsKey(command.get("producer"))) { // an init that has timed out is repeated with the same producer
            producers.put(command.get("producer"), new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer()));
        }
        producers.get(command.get("producer")).initTransactions();
    }

    private String send(KafkaProducer<String, String> producer, Map<String, String> command) throws Exception {
        Future<RecordMetadata> sent = producer.send(
                new ProducerRecord<>(command.get("topic"), Integer.parseInt(command.get("partition")), null, command.get("value")));
        return Boolean.parseBoolean(command.get("wait")) ? ",\"offset\":" + sent.get(2 * patienceMs, TimeUnit.MILLISECONDS).offset() : "";
    }

    private static KafkaConsumer<String, String> reader(Map<String, String> command) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command.get("bootstrap"));
        settings.put("client.id", command.get("client_id"));
        settings.put("group.id", command.get("group"));
        settings.put("isolation.level", command.get("isolation"));
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "100");
        KafkaConsumer<String, String> made = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        List<TopicPartition> all = IntStream.range(0, Integer.parseInt(command.get("partitions")))
                .mapToObj(index -> new TopicPartition(command.get("topic"), index)).collect(Collectors.toList());
        made.assign(all);
        made.seekToBeginning(all);
        return made;
    }

    private static String poll(KafkaConsumer<String, String> consumer, long timeoutMs) {
        StringBuilder records = new StringBuilder();
        long until = System.nanoTime() + timeoutMs * 1_000_000;
        for (long left = timeoutMs; left > 0; left = (until - System.nanoTime()) / 1_000_000) {
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(left))) {
                records.append(records.length() > 0 ? "," : "").append(String.format("[%d,%d,%s]", one.partition(), one.offset(), quoted(one.value())));
            }
        }
        String positions = consumer.assignment().stream()
                .map(at -> "\"" + at.partition() + "\":" + consumer.position(at)).collect(Collectors.joining(","));
        return ",\"records\":[" + records + "],\"positions\":{" + positions + "}";
    }

    private void close(String name) {
        if (producers.containsKey(name)) {
            producers.remove(name).close(Duration.ofSeconds(1));
        } else if (consumers.containsKey(name)) {
            consumers.remove(name).close();
        }
    }
}
