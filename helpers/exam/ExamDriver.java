import java.io.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/** kafka-clients sits the exam of txnsim: docs/exam.md. */
public final class ExamDriver {
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\":(?:\"([^\"]*)\"|(-?\\d+|true|false)|(\\[\\[.*?]]))");
    private static final Pattern OFFSET = Pattern.compile("\\[\"([^\"]*)\",(\\d+),(\\d+)]");

    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();
    private Map<String, String> command = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err); // a library that prints must not write between the answers
        ExamDriver driver = new ExamDriver();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            driver.command = new HashMap<>();
            for (Matcher field = FIELD.matcher(line); field.find(); ) {
                driver.command.put(field.group(1), IntStream.of(2, 3, 4).mapToObj(field::group).filter(Objects::nonNull).findFirst().get());
            }
            String told;
            try {
                told = "\"ok\":true" + driver.answer();
            } catch (Exception raised) {
                told = "\"ok\":false,\"error\":" + described(raised instanceof ExecutionException ? raised.getCause() : raised);
            }
            answers.println("{\"id\":" + driver.command.get("id") + "," + told + "}");
        }
        Runtime.getRuntime().halt(0); // producers that hang must not keep the process
    }

    /** The Javadoc of KafkaProducer: close on these; call again after a time-out; abort on every other KafkaException. */
    private static String described(Throwable error) {
        boolean fatal = error instanceof ProducerFencedException || error instanceof OutOfOrderSequenceException
                || error instanceof AuthorizationException || error instanceof UnsupportedVersionException;
        boolean retriable = error instanceof org.apache.kafka.common.errors.TimeoutException || error instanceof InterruptException;
        boolean abortable = error instanceof KafkaException && !fatal && !retriable;
        String name = error instanceof UnsupportedOperationException ? "UNSUPPORTED_COMMAND" : error.getClass().getSimpleName();
        return String.format(
                "{\"name\":%s,\"class\":%s,\"message\":%s,\"retriable\":%s,\"abortable\":%s,\"fatal\":%s}",
                quoted(name), quoted(error.getClass().getName()), quoted(String.valueOf(error.getMessage())), retriable, abortable, fatal);
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + '"';
    }

    private int number(String name) {
        return Integer.parseInt(command.get(name));
    }

    private String answer() throws Exception {
        KafkaProducer<String, String> producer = producers.get(command.get("producer"));
        KafkaConsumer<String, String> consumer = consumers.get(command.get("consumer"));
        switch (command.get("do")) {
            case "describe": return describe();
            case "init": init(); return "";
            case "begin": producer.beginTransaction(); return "";
            case "send": return send(producer);
            case "send-offsets":
                Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
                for (Matcher each = OFFSET.matcher(command.get("offsets")); each.find(); ) {
                    places.put(new TopicPartition(each.group(1), Integer.parseInt(each.group(2))), new OffsetAndMetadata(Long.parseLong(each.group(3))));
                }
                producer.sendOffsetsToTransaction(places, consumer == null ? new ConsumerGroupMetadata(command.get("group")) : consumer.groupMetadata());
                return "";
            case "commit": producer.commitTransaction(); return "";
            case "abort": producer.abortTransaction(); return "";
            case "consumer":
                consumer = reader(Map.of());
                List<TopicPartition> all = IntStream.range(0, number("partitions"))
                        .mapToObj(index -> new TopicPartition(command.get("topic"), index)).collect(Collectors.toList());
                consumer.assign(all);
                consumer.seekToBeginning(all);
                return "";
            case "subscribe": // with the metadata of this member positions are sent, where a command names it
                reader(Map.of("group.protocol", command.get("protocol"))).subscribe(List.of(command.get("topic")));
                return "";
            case "poll": return poll(consumer);
            case "end-offsets": return ",\"ends\":{" + byPartition(consumer.endOffsets(consumer.assignment())) + "}";
            case "seek": consumer.seek(new TopicPartition(command.get("topic"), number("partition")), number("offset")); return "";
            case "commit-positions": consumer.commitSync(); return "";
            case "fence":
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id")))) {
                    admin.fenceProducers(List.of(command.get("transactional_id"))).all().get();
                }
                return "";
            case "close": close(command.get("name")); return "";
            default: throw new UnsupportedOperationException(command.get("do"));
        }
    }

    private static String describe() throws IOException {
        Properties about = new Properties();
        about.load(KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties"));
        return ",\"contract\":1,\"library\":\"kafka-clients\",\"language\":\"Java\",\"version\":" + quoted(about.getProperty("version"));
    }

    private void init() {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id")));
        settings.put("transactional.id", command.get("transactional_id"));
        settings.put("transaction.timeout.ms", command.get("transaction_timeout_ms"));
        settings.put("request.timeout.ms", command.get("request_timeout_ms"));
        settings.put("delivery.timeout.ms", command.get("patience_ms"));
        settings.put("max.block.ms", command.get("patience_ms"));
        // An init that has timed out is repeated with the same producer.
        producers.computeIfAbsent(command.get("producer"), name -> new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer()))
                .initTransactions();
    }

    private String send(KafkaProducer<String, String> producer) throws Exception {
        Future<RecordMetadata> sent = producer.send(new ProducerRecord<>(command.get("topic"), number("partition"), null, command.get("value")));
        return Boolean.parseBoolean(command.get("wait")) ? ",\"offset\":" + sent.get(1, TimeUnit.MINUTES).offset() : "";
    }

    private KafkaConsumer<String, String> reader(Map<String, String> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id")));
        settings.put("group.id", command.get("group"));
        settings.put("isolation.level", command.get("isolation"));
        settings.putAll(Map.of("enable.auto.commit", "false", "auto.offset.reset", "earliest", "fetch.max.wait.ms", "100"));
        settings.putAll(more);
        consumers.put(command.get("consumer"), new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer()));
        return consumers.get(command.get("consumer"));
    }

    private String poll(KafkaConsumer<String, String> consumer) {
        StringBuilder records = new StringBuilder();
        long until = System.nanoTime() + number("timeout_ms") * 1_000_000L;
        for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
            for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofNanos(left))) {
                records.append(records.length() > 0 ? "," : "").append(String.format("[%d,%d,%s]", one.partition(), one.offset(), quoted(one.value())));
            }
        }
        Map<TopicPartition, Long> positions = consumer.assignment().stream().collect(Collectors.toMap(at -> at, consumer::position));
        return ",\"records\":[" + records + "],\"positions\":{" + byPartition(positions) + "}";
    }

    private static String byPartition(Map<TopicPartition, Long> offsets) {
        return offsets.entrySet().stream().map(one -> "\"" + one.getKey().partition() + "\":" + one.getValue()).collect(Collectors.joining(","));
    }

    private void close(String name) {
        if (producers.containsKey(name)) {
            producers.remove(name).close(Duration.ofSeconds(1));
        } else if (consumers.containsKey(name)) {
            consumers.remove(name).close();
        }
    }
}
