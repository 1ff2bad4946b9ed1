import java.io.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import java.util.stream.*;
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
            String fields;
            try {
                fields = "\"ok\":true" + driver.answer();
            } catch (Exception | NoSuchMethodError raised) {
                fields = "\"ok\":false,\"error\":" + described(raised instanceof ExecutionException ? raised.getCause() : raised);
            }
            answers.println("{\"id\":" + driver.command.get("id") + "," + fields + "}");
        }
        Runtime.getRuntime().halt(0); // producers that hang must not keep the process
    }

    /** The Javadoc of KafkaProducer: close on these; call again after a time-out; abort on every other KafkaException. */
    private static String described(Throwable error) {
        boolean fatal = Stream.of(ProducerFencedException.class, OutOfOrderSequenceException.class, AuthorizationException.class, UnsupportedVersionException.class).anyMatch(errorClass -> errorClass.isInstance(error));
        boolean retriable = error instanceof org.apache.kafka.common.errors.TimeoutException || error instanceof InterruptException;
        boolean abortable = error instanceof KafkaException && !fatal && !retriable;
        String name = error instanceof UnsupportedOperationException || error instanceof NoSuchMethodError ? "UNSUPPORTED_COMMAND" : error.getClass().getSimpleName();
        return String.format("{\"name\":%s,\"class\":%s,\"message\":%s,\"retriable\":%s,\"abortable\":%s,\"fatal\":%s}",
                quoted(name), quoted(error.getClass().getName()), quoted(String.valueOf(error.getMessage())), retriable, abortable, fatal);
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + '"';
    }

    private String answer() throws Exception {
        KafkaProducer<String, String> producer = producers.get(command.get("producer"));
        KafkaConsumer<String, String> consumer = consumers.get(command.get("consumer"));
        String fields = "";
        switch (command.get("do")) {
            case "describe" -> fields = ",\"contract\":1,\"library\":\"kafka-clients\",\"language\":\"Java\",\"runtime\":" + quoted("Java " + Runtime.version()) + ",\"version\":" + quoted(
                    new Scanner(KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")).findWithinHorizon("(?<=version=)\\S+", 0));
            case "init" -> init();
            case "begin" -> producer.beginTransaction();
            case "send" -> fields = send(producer);
            case "send-offsets" -> producer.sendOffsetsToTransaction(offsetsToCommit(), consumer == null ? new ConsumerGroupMetadata(command.get("group")) : consumer.groupMetadata());
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "consumer" -> {
                consumer = reader(Map.of());
                consumer.assign(IntStream.range(0, Integer.parseInt(command.get("partitions")))
                        .mapToObj(index -> new TopicPartition(command.get("topic"), index)).toList());
                consumer.seekToBeginning(consumer.assignment());
            }
            case "subscribe" -> reader(command.get("protocol").equals("consumer") ? Map.of("group.protocol", "consumer")
                    : Map.of("session.timeout.ms", command.get("session_timeout_ms"))).subscribe(List.of(command.get("topic")));
            case "poll" -> fields = poll(consumer, false);
            case "poll-first" -> fields = poll(consumer, true);
            case "end-offsets" -> fields = ",\"ends\":{" + byPartition(consumer.endOffsets(consumer.assignment())) + "}";
            case "seek" -> consumer.seek(new TopicPartition(command.get("topic"), Integer.parseInt(command.get("partition"))), Long.parseLong(command.get("offset")));
            case "commit-positions" -> consumer.commitSync();
            case "share-subscribe", "share-poll", "acknowledge", "share-commit" -> fields = share();
            case "fence", "abort-open" -> ExamAdmin.carryOut(command, settings(Map.of()));
            case "close" -> {
                Optional.ofNullable(producers.remove(command.get("name"))).ifPresent(closing -> closing.close(Duration.ofSeconds(15)));
                Optional.ofNullable(consumers.remove(command.get("name"))).ifPresent(closing -> closing.close(Duration.ofSeconds(1)));
                share();
            }
            default -> throw new UnsupportedOperationException(command.get("do"));
        }
        return fields;
    }

    /** Share groups came with 4.1: their part of the driver is there where it was compiled, too. */
    private String share() throws Exception {
        Class<?> shareDriver;
        try {
            shareDriver = Class.forName("ExamShare");
        } catch (ClassNotFoundException older) {
            if (command.get("do").equals("close")) {
                return "";
            }
            throw new UnsupportedOperationException(command.get("do"));
        }
        try {
            return (String) shareDriver.getDeclaredMethod("carryOut", Map.class).invoke(null, command);
        } catch (java.lang.reflect.InvocationTargetException raised) {
            throw raised.getCause() instanceof Exception error ? error : raised;
        }
    }

    private Map<TopicPartition, OffsetAndMetadata> offsetsToCommit() {
        return OFFSET.matcher(command.get("offsets")).results().collect(Collectors.toMap(
                position -> new TopicPartition(position.group(1), Integer.parseInt(position.group(2))), position -> new OffsetAndMetadata(Long.parseLong(position.group(3)))));
    }

    private Map<String, Object> settings(Map<String, String> settings) {
        Map<String, Object> allSettings = new HashMap<>(settings);
        allSettings.putAll(Map.of("bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id")));
        return allSettings;
    }

    private void init() { // one that has timed out is repeated with the same producer
        String patience = command.get("patience_ms");
        producers.computeIfAbsent(command.get("producer"), name -> new KafkaProducer<>(settings(Map.of(
                "transactional.id", command.get("transactional_id"), "transaction.timeout.ms", command.get("transaction_timeout_ms"),
                "request.timeout.ms", command.get("request_timeout_ms"), "delivery.timeout.ms", String.valueOf(Math.max(Long.parseLong(patience), 1_000 + Long.parseLong(command.get("request_timeout_ms")))), "max.block.ms", patience)),
                new StringSerializer(), new StringSerializer())).initTransactions();
    }

    private String send(KafkaProducer<String, String> producer) throws Exception {
        Future<RecordMetadata> sent = producer.send(new ProducerRecord<>(command.get("topic"), Integer.parseInt(command.get("partition")), null, command.get("value")));
        return Boolean.parseBoolean(command.get("wait")) ? ",\"offset\":" + sent.get(1, TimeUnit.MINUTES).offset() : "";
    }

    private KafkaConsumer<String, String> reader(Map<String, String> groupSettings) {
        Map<String, Object> settings = settings(Map.of("group.id", command.get("group"), "isolation.level", command.get("isolation"),
                "enable.auto.commit", "false", "auto.offset.reset", "earliest", "fetch.max.wait.ms", "100"));
        settings.putAll(groupSettings);
        consumers.put(command.get("consumer"), new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer()));
        return consumers.get(command.get("consumer"));
    }

    private String poll(KafkaConsumer<String, String> consumer, boolean onlyOne) {
        StringBuilder records = new StringBuilder();
        long deadlineNs = System.nanoTime() + Long.parseLong(command.get("timeout_ms")) * 1_000_000L;
        for (long remainingNs = deadlineNs - System.nanoTime(); remainingNs > 0 && !(onlyOne && records.length() > 0); remainingNs = deadlineNs - System.nanoTime()) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofNanos(remainingNs))) {
                records.append(records.length() > 0 ? "," : "").append(String.format("[%d,%d,%s]", record.partition(), record.offset(), quoted(record.value())));
            }
        }
        Map<TopicPartition, Long> positions = new HashMap<>();
        for (TopicPartition partition : consumer.assignment()) {
            try {
                positions.put(partition, consumer.position(partition, Duration.ofMillis(200)));
            } catch (org.apache.kafka.common.errors.TimeoutException unknownYet) { } // left out
        }
        return ",\"records\":[" + records + "],\"positions\":{" + byPartition(positions) + "}";
    }

    private static String byPartition(Map<TopicPartition, Long> offsets) {
        return offsets.entrySet().stream().map(entry -> "\"" + entry.getKey().partition() + "\":" + entry.getValue()).collect(Collectors.joining(","));
    }
}
