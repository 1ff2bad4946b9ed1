import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * Makes a transaction hang on any Kafka address: a transactional Produce whose coordinator was never told of the partition.
 *
 * <p>{@code HangingTransaction BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS}. Verification (KIP-890) is switched
 * off first, and the request is Produce v11, whose partitions are not added implicitly. Prints the transaction as one JSON
 * object.
 */
public final class HangingTransaction {
    private static final short PRODUCE_VERSION = 11;

    private HangingTransaction() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 5) {
            System.err.println("usage: HangingTransaction BOOTSTRAP TRANSACTIONAL_ID TOPIC PARTITION TIMESTAMP_MS");
            System.exit(2);
        }
        String id = args[1];
        TopicPartition at = new TopicPartition(args[2], Integer.parseInt(args[3]));
        long timestamp = Long.parseLong(args[4]);
        try (Lab lab = Lab.at(args[0])) {
            createTopic(lab, at);
            switchVerificationOff(lab);
            lab.transactional(id).close();
            TransactionDescription identity = lab.describe(id);
            List<Long> offsets = new ArrayList<>();
            Lab.await(
                    "the leader takes the Produce", // a dynamic configuration reaches brokers a moment later
                    () -> {
                        long offset = produce(lab.leaders(at.topic()).get(at.partition()), id, identity, at, timestamp);
                        offsets.add(offset);
                        return offset >= 0;
                    });
            System.out.printf(
                    "{\"transactional_id\":\"%s\",\"producer_id\":%d,\"producer_epoch\":%d,\"start_offset\":%d}%n",
                    id, identity.producerId(), identity.producerEpoch(), offsets.get(offsets.size() - 1));
        }
    }

    private static void createTopic(Lab lab, TopicPartition at) throws Exception {
        NewTopic topic = new NewTopic(at.topic(), at.partition() + 1, (short) 1);
        try {
            lab.admin.createTopics(List.of(topic)).all().get();
        } catch (ExecutionException failure) {
            if (!(failure.getCause() instanceof TopicExistsException)) {
                throw failure;
            }
        }
        Lab.await("the partition has a leader", () -> lab.leaders(at.topic()).containsKey(at.partition()));
    }

    private static void switchVerificationOff(Lab lab) throws Exception {
        ConfigResource allBrokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigEntry off = new ConfigEntry("transaction.partition.verification.enable", "false");
        AlterConfigOp set = new AlterConfigOp(off, AlterConfigOp.OpType.SET);
        lab.admin.incrementalAlterConfigs(Map.of(allBrokers, List.of(set))).all().get();
    }

    /** The offset, or -1 if the leader refused: a refused batch leaves nothing behind. */
    private static long produce(Node leader, String id, TransactionDescription by, TopicPartition at, long timestamp)
            throws IOException {
        MemoryRecords records =
                MemoryRecords.withTransactionalRecords(
                        Compression.NONE,
                        by.producerId(),
                        (short) by.producerEpoch(),
                        0,
                        new SimpleRecord(timestamp, "hanging".getBytes()));
        ProduceRequestData data =
                new ProduceRequestData().setTransactionalId(id).setAcks((short) -1).setTimeoutMs(30_000);
        data.topicData()
                .add(
                        new ProduceRequestData.TopicProduceData()
                                .setName(at.topic())
                                .setPartitionData(
                                        List.of(
                                                new ProduceRequestData.PartitionProduceData()
                                                        .setIndex(at.partition())
                                                        .setRecords(records))));
        RequestHeader header = new RequestHeader(ApiKeys.PRODUCE, PRODUCE_VERSION, "hanging-transaction", 1);
        ByteBuffer request = new ProduceRequest(data, PRODUCE_VERSION).serializeWithHeader(header);
        ByteBuffer answer = exchange(leader, request);
        ResponseHeader.parse(answer, ApiKeys.PRODUCE.responseHeaderVersion(PRODUCE_VERSION));
        ProduceResponseData.PartitionProduceResponse result =
                new ProduceResponseData(new ByteBufferAccessor(answer), PRODUCE_VERSION)
                        .responses()
                        .iterator()
                        .next()
                        .partitionResponses()
                        .get(0);
        return result.errorCode() == Errors.NONE.code() ? result.baseOffset() : -1;
    }

    private static ByteBuffer exchange(Node leader, ByteBuffer request) throws IOException {
        try (Socket socket = new Socket(leader.host(), leader.port())) {
            socket.setSoTimeout((int) Lab.PATIENCE.toMillis());
            ByteBuffer frame = ByteBuffer.allocate(4 + request.remaining());
            frame.putInt(request.remaining()).put(request);
            socket.getOutputStream().write(frame.array());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer = new byte[in.readInt()];
            in.readFully(answer);
            return ByteBuffer.wrap(answer);
        }
    }
}
