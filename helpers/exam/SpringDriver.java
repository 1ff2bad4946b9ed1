import java.io.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;
import org.springframework.kafka.core.*;
import org.springframework.kafka.listener.*;
import org.springframework.kafka.support.TopicPartitionOffset;

/** spring-kafka sits the exam of txnsim: docs/exam.md. With the argument fix-tx-offsets its listeners have that property. */
public final class SpringDriver {
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\":(?:\"([^\"]*)\"|(-?\\d+|true|false)|(\\[\\[.*?]]))");

    private final Map<String, Producer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaMessageListenerContainer<String, String>> containers = new HashMap<>();
    private final Map<String, BlockingQueue<ConsumerRecord<String, String>>> heard = new HashMap<>();
    private final boolean fixesOffsets;
    private Map<String, String> command = new HashMap<>();

    private SpringDriver(boolean fixesOffsets) {
        this.fixesOffsets = fixesOffsets;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err); // a library that prints must not write between the answers
        SpringDriver driver = new SpringDriver(List.of(arguments).contains("fix-tx-offsets"));
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
        Runtime.getRuntime().halt(0);
    }

    /** As the Javadoc of KafkaProducer says, whose errors Spring hands on. */
    private static String described(Throwable error) {
        boolean fatal = error instanceof ProducerFencedException || error instanceof OutOfOrderSequenceException || error instanceof AuthorizationException;
        boolean retriable = error instanceof org.apache.kafka.common.errors.TimeoutException;
        String name = error instanceof UnsupportedOperationException ? "UNSUPPORTED_COMMAND" : error.getClass().getSimpleName();
        return String.format("{\"name\":%s,\"class\":%s,\"message\":%s,\"retriable\":%s,\"abortable\":%s,\"fatal\":%s}",
                quoted(name), quoted(error.getClass().getName()), quoted(String.valueOf(error.getMessage())), retriable,
                error instanceof KafkaException && !fatal && !retriable, fatal);
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + '"';
    }

    private String answer() throws Exception {
        Producer<String, String> producer = producers.get(command.get("producer"));
        switch (command.get("do")) {
            case "describe" -> {
                String version = KafkaMessageListenerContainer.class.getPackage().getImplementationVersion();
                return ",\"contract\":1,\"library\":\"spring-kafka" + (fixesOffsets ? ", fixTxOffsets" : "") + "\",\"language\":\"Java\",\"runtime\":" + quoted("Java " + Runtime.version()) + ",\"version\":" + quoted(version);
            }
            case "init" -> init();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(command.get("topic"), Integer.parseInt(command.get("partition")), null, command.get("value"))).get();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "consumer" -> listen();
            case "poll" -> {
                List<ConsumerRecord<String, String>> found = new ArrayList<>();
                long until = System.nanoTime() + Long.parseLong(command.get("timeout_ms")) * 1_000_000L;
                for (long left = until - System.nanoTime(); left > 0; left = until - System.nanoTime()) {
                    Optional.ofNullable(heard.get(command.get("consumer")).poll(left, TimeUnit.NANOSECONDS)).ifPresent(found::add);
                }
                return found.stream().map(one -> String.format("[%d,%d,%s]", one.partition(), one.offset(), quoted(one.value())))
                        .collect(Collectors.joining(",", ",\"records\":[", "],\"positions\":null")); // a container keeps them to itself
            }
            case "commit-positions" -> Thread.sleep(2_000); // a listener's container commits by itself, also while it is idle
            case "close" -> {
                Optional.ofNullable(producers.remove(command.get("name"))).ifPresent(Producer::close);
                Optional.ofNullable(containers.remove(command.get("name"))).ifPresent(KafkaMessageListenerContainer::stop);
            }
            default -> throw new UnsupportedOperationException(command.get("do"));
        }
        return "";
    }

    private void init() {
        DefaultKafkaProducerFactory<String, String> factory = new DefaultKafkaProducerFactory<>(Map.of(
                "bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id"),
                "transaction.timeout.ms", command.get("transaction_timeout_ms"), "request.timeout.ms", command.get("request_timeout_ms"),
                "delivery.timeout.ms", command.get("patience_ms"), "max.block.ms", command.get("patience_ms")),
                new StringSerializer(), new StringSerializer());
        factory.setTransactionIdPrefix(command.get("transactional_id"));
        producers.put(command.get("producer"), factory.createProducer());
    }

    private void listen() {
        String name = command.get("consumer");
        BlockingQueue<ConsumerRecord<String, String>> records = new LinkedBlockingQueue<>();
        ContainerProperties properties = new ContainerProperties(IntStream.range(0, Integer.parseInt(command.get("partitions")))
                .mapToObj(index -> new TopicPartitionOffset(command.get("topic"), index, TopicPartitionOffset.SeekPosition.BEGINNING))
                .toArray(TopicPartitionOffset[]::new));
        properties.setGroupId(command.get("group"));
        properties.setMessageListener((MessageListener<String, String>) records::add);
        properties.setFixTxOffsets(fixesOffsets);
        properties.setPollTimeout(200);
        containers.put(name, new KafkaMessageListenerContainer<>(new DefaultKafkaConsumerFactory<>(Map.of(
                "bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id"), "isolation.level", command.get("isolation"),
                "fetch.max.wait.ms", "100"), new StringDeserializer(), new StringDeserializer()), properties));
        heard.put(name, records);
        containers.get(name).start();
    }
}
