package org.apache.iceberg.connect.channel;

import exam.Contract;
import java.lang.reflect.Proxy;
import java.util.*;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.connect.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.connect.sink.SinkTaskContext;

/**
 * Iceberg's sink for Kafka Connect sits the exam of txnsim: docs/exam.md. A producer is that of a connector's coordinator, or of its
 * worker with the argument worker. The transactional id that the exam names is the name of the connector, which stays when its process
 * ends. With the argument stable-ids nothing is added to the connector's settings when it starts, so its ids stay, too.
 */
public final class IcebergDriver {
    private final Map<String, Producer<String, byte[]>> producers = new HashMap<>();
    private final Map<String, Channel> channels = new HashMap<>();
    private final List<String> arguments;

    private IcebergDriver(List<String> arguments) {
        this.arguments = arguments;
    }

    public static void main(String[] arguments) throws Exception {
        Contract.serve(new IcebergDriver(List.of(arguments))::answer);
    }

    private String answer(Map<String, String> command) throws Exception {
        Producer<String, byte[]> producer = producers.get(command.get("producer"));
        switch (command.get("do")) {
            case "describe" -> {
                return Contract.description(String.join(" ", "iceberg-kafka-connect", String.join(" ", arguments)).strip(), IcebergSinkConnector.class);
            }
            case "init" -> init(command);
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(command.get("topic"), Integer.parseInt(command.get("partition")), null, command.get("value").getBytes())).get();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> {
                producers.remove(command.get("name"));
                Optional.ofNullable(channels.remove(command.get("name"))).ifPresent(Channel::stop);
            }
            default -> throw new UnsupportedOperationException(command.get("do"));
        }
        return "";
    }

    /** A connector starts, and its task makes the channel: what the connector adds to the settings is in force, as in Kafka Connect. */
    private void init(Map<String, String> command) {
        String name = command.get("producer"), id = command.get("transactional_id");
        Map<String, String> settings = new HashMap<>(Map.of("name", id, "iceberg.connect.group-id", id, "iceberg.catalog.type", "hadoop",
                "iceberg.tables", "db.table", "iceberg.coordinator.transactional.prefix", id + "-"));
        Contract.producerSettings(command).forEach((key, value) -> settings.put("iceberg.kafka." + key, value.toString()));
        IcebergSinkConnector connector = new IcebergSinkConnector();
        connector.start(settings);
        IcebergSinkConfig config = new IcebergSinkConfig(arguments.contains("stable-ids") ? settings : connector.taskConfigs(1).get(0));
        KafkaClientFactory clients = new KafkaClientFactory(config.kafkaProps()) {
            @Override
            Producer<String, byte[]> createProducer(String transactionalId) {
                producers.put(name, super.createProducer(transactionalId));
                return producers.get(name);
            }
        };
        channels.put(name, arguments.contains("worker") ? new Worker(config, clients, null, nothing(SinkTaskContext.class))
                : new Coordinator(nothing(Catalog.class), config, List.of(), clients, nothing(SinkTaskContext.class)));
    }

    /** What the exam never asks. */
    private static <T> T nothing(Class<T> type) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, values) -> {
            throw new UnsupportedOperationException(method.getName());
        }));
    }
}
