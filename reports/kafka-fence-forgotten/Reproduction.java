import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.serialization.StringSerializer;

/** A compacted partition keeps an empty marker for its epoch. A replica that copies the partition does not learn that epoch. */
public final class Reproduction {
    private static final short BY_NAME = 12; // the newest Produce that names its topic
    private static final int ROUNDS = 8;

    public static void main(String[] words) throws Exception {
        Map<String, String> quick = Map.of("log.cleaner.backoff.ms", "300", "log.segment.delete.delay.ms", "1000");
        try (Brokers brokers = new Brokers(2, quick)) {
            boolean control = play(brokers, "control", "86400000");
            boolean defect = !play(brokers, "topic", "1000");
            Brokers.say(control && defect ? "REPRODUCED" : "NOT REPRODUCED");
            System.exit(control && defect ? 0 : 1);
        }
    }

    /** Whether a replica that copies the partition refuses a batch of the epoch before. */
    private static boolean play(Brokers brokers, String topic, String deleteRetention) throws Exception {
        TopicPartition at = new TopicPartition(topic, 0);
        brokers.create(topic, List.of(List.of(1)), Map.of(
            "cleanup.policy", "compact", "segment.ms", "500", "min.cleanable.dirty.ratio", "0", "delete.retention.ms", deleteRetention));
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers.bootstrap(), "transactional.id", "app-" + topic);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "key", "in the transaction"));
            producer.commitTransaction();
        }
        Brokers.await("the marker is written", 30, () -> producers(brokers, at).stream().anyMatch(one -> one.producerEpoch() > 0));
        long id = producers(brokers, at).get(0).producerId();
        Brokers.say(topic + ", delete.retention.ms " + deleteRetention + ". A transaction has ended; broker 1 knows its producer at " + epoch(brokers, at, id));
        overwrite(brokers, topic);
        Brokers.say("  the topic was compacted for some rounds; broker 1 knows it at " + epoch(brokers, at, id));
        Brokers.say("  broker 1 answers to a batch of epoch 0: " + stale(brokers, 1, at, id));
        brokers.reassign(at, List.of(2));
        Brokers.await("broker 2 leads", 30, () -> brokers.leader(at).equals(java.util.Optional.of(2)));
        Brokers.say("  broker 2 has copied the partition, and leads; it knows it at " + epoch(brokers, at, id));
        Errors answer = stale(brokers, 2, at, id);
        Brokers.say("  broker 2 answers to a batch of epoch 0: " + answer);
        return answer == Errors.INVALID_PRODUCER_EPOCH;
    }

    /** Another producer, which has no id, writes the key again and again: segments are rolled and cleaned. */
    private static void overwrite(Brokers brokers, String topic) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers.bootstrap(), "enable.idempotence", false);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int round = 0; round < ROUNDS; round++) {
                producer.send(new ProducerRecord<>(topic, "key", "round " + round)).get();
                TimeUnit.SECONDS.sleep(2);
            }
        }
    }

    private static List<org.apache.kafka.clients.admin.ProducerState> producers(Brokers brokers, TopicPartition at) throws Exception {
        return brokers.admin.describeProducers(Set.of(at)).all().get().get(at).activeProducers();
    }

    private static String epoch(Brokers brokers, TopicPartition at, long id) throws Exception {
        return producers(brokers, at).stream().filter(one -> one.producerId() == id).map(one -> "epoch " + one.producerEpoch()).findFirst().orElse("no epoch");
    }

    /** What a broker answers to a batch of epoch 0 of a producer, outside of transactions. */
    private static Errors stale(Brokers brokers, int broker, TopicPartition at, long id) throws Exception {
        SimpleRecord record = new SimpleRecord(System.currentTimeMillis(), "key".getBytes(), "of a zombie".getBytes());
        MemoryRecords batch = MemoryRecords.withIdempotentRecords(Compression.NONE, id, (short) 0, 1, record);
        var partition = new ProduceRequestData.PartitionProduceData().setIndex(at.partition()).setRecords(batch);
        var topic = new ProduceRequestData.TopicProduceData().setName(at.topic()).setPartitionData(List.of(partition));
        var data = new ProduceRequestData().setAcks((short) -1).setTimeoutMs(10_000);
        data.topicData().add(topic);
        RequestHeader header = new RequestHeader(ApiKeys.PRODUCE, BY_NAME, "zombie", 1);
        ByteBuffer request = new ProduceRequest(data, BY_NAME).serializeWithHeader(header);
        try (Socket socket = new Socket("127.0.0.1", brokers.port(broker))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.writeInt(request.remaining());
            out.write(request.array(), request.position(), request.remaining());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer = new byte[in.readInt()];
            in.readFully(answer);
            var response = (ProduceResponse) AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
            return Errors.forCode(response.data().responses().iterator().next().partitionResponses().get(0).errorCode());
        }
    }
}
