import exam.Contract;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;
import org.springframework.kafka.core.*;
import org.springframework.kafka.listener.*;
import org.springframework.kafka.support.TopicPartitionOffset;

/** spring-kafka sits the exam of txnsim: docs/exam.md. With the argument fix-tx-offsets its listeners have that property. */
public final class SpringDriver {
    private final Map<String, Producer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaMessageListenerContainer<String, String>> containers = new HashMap<>();
    private final Map<String, BlockingQueue<ConsumerRecord<String, String>>> recordsByConsumer = new HashMap<>();
    private final boolean fixesOffsets;

    private SpringDriver(boolean fixesOffsets) {
        this.fixesOffsets = fixesOffsets;
    }

    public static void main(String[] arguments) throws Exception {
        SpringDriver driver = new SpringDriver(List.of(arguments).contains("fix-tx-offsets"));
        Contract.serve(driver::answer);
    }

    private String answer(Map<String, String> command) throws Exception {
        Producer<String, String> producer = producers.get(command.get("producer"));
        switch (command.get("do")) {
            case "describe" -> {
                return Contract.description("spring-kafka" + (fixesOffsets ? ", fixTxOffsets" : ""), KafkaMessageListenerContainer.class);
            }
            case "init" -> init(command);
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(command.get("topic"), Integer.parseInt(command.get("partition")), null, command.get("value"))).get();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "consumer" -> listen(command);
            case "poll" -> {
                List<ConsumerRecord<String, String>> polled = new ArrayList<>();
                long deadlineNs = System.nanoTime() + Long.parseLong(command.get("timeout_ms")) * 1_000_000L;
                for (long remainingNs = deadlineNs - System.nanoTime(); remainingNs > 0; remainingNs = deadlineNs - System.nanoTime()) {
                    Optional.ofNullable(recordsByConsumer.get(command.get("consumer")).poll(remainingNs, TimeUnit.NANOSECONDS)).ifPresent(polled::add);
                }
                return polled.stream().map(record -> String.format("[%d,%d,%s]", record.partition(), record.offset(), Contract.quoted(record.value())))
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

    /** Each producer has a factory of its own, so that its id is always the one that was asked for, with the suffix 0. */
    private void init(Map<String, String> command) {
        String clientId = command.get("client_id");
        DefaultKafkaProducerFactory<String, String> factory = new DefaultKafkaProducerFactory<>(
                Contract.producerSettings(command), new StringSerializer(), new StringSerializer()) {
            @Override
            protected Producer<String, String> createRawProducer(Map<String, Object> settings) {
                settings.put("client.id", clientId); // Spring adds a number
                return super.createRawProducer(settings);
            }
        };
        factory.setTransactionIdPrefix(command.get("transactional_id"));
        producers.put(command.get("producer"), factory.createProducer());
    }

    private void listen(Map<String, String> command) {
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
        recordsByConsumer.put(name, records);
        containers.get(name).start();
    }
}
