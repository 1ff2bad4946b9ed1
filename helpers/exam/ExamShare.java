import java.time.Duration;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of share groups in the exam, with kafka-clients from 4.2 on. */
final class ExamShare {
    private static final Map<String, KafkaShareConsumer<String, String>> members = new HashMap<>();
    private static final Map<String, List<ConsumerRecord<String, String>>> polled = new HashMap<>();
    private static final Set<String> renewed = new HashSet<>();

    static String carryOut(Map<String, String> command) {
        String name = command.get("consumer");
        KafkaShareConsumer<String, String> member = members.get(name);
        switch (command.get("do")) {
            case "share-subscribe" -> {
                members.put(name, new KafkaShareConsumer<>(Map.of("bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id"),
                        "group.id", command.get("group"), "share.acknowledgement.mode", "explicit", "request.timeout.ms", command.get("request_timeout_ms"),
                        "metadata.max.age.ms", "1000"), new StringDeserializer(), new StringDeserializer()));
                members.get(name).subscribe(List.of(command.get("topic")));
            }
            case "share-poll" -> {
                polled.put(name, new ArrayList<>());
                member.poll(Duration.ofMillis(Long.parseLong(command.get("timeout_ms")))).forEach(polled.get(name)::add);
                return ",\"records\":[" + polled.get(name).stream().map(record -> String.format("[%d,%d,\"%s\"]", record.partition(), record.offset(), record.value()))
                        .collect(Collectors.joining(",")) + "]";
            }
            case "acknowledge" -> {
                if (renewed.remove(name)) { // the next poll brings what was renewed, and nothing else
                    polled.put(name, new ArrayList<>());
                    member.poll(Duration.ofSeconds(1)).forEach(polled.get(name)::add);
                }
                AcknowledgeType acknowledgement = AcknowledgeType.valueOf(command.get("how").toUpperCase(Locale.ROOT));
                polled.get(name).forEach(record -> member.acknowledge(record, acknowledgement));
                if (acknowledgement == AcknowledgeType.RENEW) {
                    renewed.add(name);
                }
            }
            case "share-commit" -> {
                Map<TopicIdPartition, Optional<KafkaException>> outcomes = member.commitSync(Duration.ofMillis(Long.parseLong(command.get("patience_ms"))));
                return ",\"failed\":{" + outcomes.entrySet().stream().filter(outcome -> outcome.getValue().isPresent())
                        .map(outcome -> String.format("\"%d\":\"%s\"", outcome.getKey().partition(), outcome.getValue().get().getClass().getSimpleName()))
                        .collect(Collectors.joining(",")) + "}";
            }
            default -> Optional.ofNullable(members.remove(command.get("name"))).ifPresent(shareConsumer -> shareConsumer.close(Duration.ofSeconds(5)));
        }
        return "";
    }
}
