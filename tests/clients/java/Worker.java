import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.ArrayList;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** A member of a group that consumes, transforms and produces, its positions inside the transaction (KIP-447). */
final class Worker implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(50);

    final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final TopicPartition output;
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    private ConsumerGroupMetadata membership;

    /**
     * @param name of the transactional id
     * @param recordsPerPoll how much goes into one transaction, at most
     * @param settings of the consumer beyond those that exactly-once needs
     */
    Worker(
            Lab lab,
            String group,
            String name,
            String input,
            TopicPartition output,
            int recordsPerPoll,
            Map<String, Object> settings) {
        Map<String, Object> config = new HashMap<>(settings);
        config.put("group.id", group);
        config.put("isolation.level", "read_committed");
        config.put("auto.offset.reset", "earliest");
        config.put("max.poll.records", recordsPerPoll);
        this.output = output;
        this.consumer = lab.consumer(config);
        this.producer = lab.transactional(name);
        consumer.subscribe(List.of(input));
    }

    @Override
    public void close() {
        producer.close();
        consumer.close();
    }

    /** Begin a transaction with what a poll brings and send what becomes of it; false if there is nothing. */
    boolean begin() throws Exception {
        Iterable<ConsumerRecord<String, String>> records = consumer.poll(POLL);
        if (!records.iterator().hasNext()) {
            return false;
        }
        positions.clear();
        producer.beginTransaction();
        transform(records);
        return true;
    }

    /** Go on in the transaction until it has consumed from all of these. */
    void consumeFrom(Set<TopicPartition> partitions) throws Exception {
        Lab.await(
                "records of " + partitions,
                () -> {
                    if (!positions.keySet().containsAll(partitions)) {
                        transform(consumer.poll(POLL));
                    }
                    return positions.keySet().containsAll(partitions);
                });
    }

    private void transform(Iterable<ConsumerRecord<String, String>> records) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (ConsumerRecord<String, String> record : records) {
            String from = record.partition() + ":" + record.offset();
            sent.add(
                    producer.send(
                            new ProducerRecord<>(output.topic(), output.partition(), from, "made of " + record.value())));
            TopicPartition at = new TopicPartition(record.topic(), record.partition());
            positions.put(at, new OffsetAndMetadata(record.offset() + 1));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
        membership = consumer.groupMetadata(); // of the generation in which it was consumed
    }

    /** Hand the positions to the transaction: from here on they are pending. */
    void sendPositions() {
        producer.sendOffsetsToTransaction(positions, membership);
    }

    void commit() {
        producer.commitTransaction();
    }

    /** Abort, and go back to where the group is. */
    void abort() {
        producer.abortTransaction();
        Set<TopicPartition> mine = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(mine);
        for (TopicPartition at : mine) {
            OffsetAndMetadata position = committed.get(at);
            consumer.seek(at, position == null ? 0 : position.offset());
        }
    }

    /** One whole transaction; the number of partitions whose position it moved, 0 if nothing came or it was refused. */
    int step() throws Exception {
        if (!begin()) {
            return 0;
        }
        try {
            sendPositions();
            commit();
            return positions.size();
        } catch (CommitFailedException refused) {
            abort();
            return 0;
        }
    }
}
