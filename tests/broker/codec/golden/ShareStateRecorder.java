// Records of __share_group_state, and batches of states combined, by Kafka's own classes.
// Each line is one case; see record.py.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareGroupOffset;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

public final class ShareStateRecorder {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final ShareCoordinatorRecordSerde SERDE = new ShareCoordinatorRecordSerde();
    static final Uuid TOPIC = Uuid.fromString("qHBm7qF0QeCvHxCmWtCZ2w");

    public static void main(String[] args) throws Exception {
        Path file = Path.of(args[0], "share_state.jsonl");
        try (PrintWriter out =
                new PrintWriter(Files.newBufferedWriter(file, StandardCharsets.UTF_8))) {
            List<PersisterStateBatch> batches =
                    List.of(
                            new PersisterStateBatch(5, 9, (byte) 2, (short) 1),
                            new PersisterStateBatch(12, 12, (byte) 0, (short) 300),
                            new PersisterStateBatch(1L << 40, (1L << 40) + 1, (byte) 4, (short) 5));
            for (ShareGroupOffset state :
                    List.of(
                            state(0, 0, 0, -1, -1, 1, 1, List.of()),
                            state(3, 2, 7, 5, 6, 1_700_000_000_000L, 1_700_000_300_000L, batches))) {
                emit(out, "snapshot", state);
                emit(out, "update", state);
            }
            emit(out, "deleted", null);
            Random random = new Random(59);
            for (int number = 0; number < 300; number++) {
                combine(out, random);
            }
        }
    }

    static ShareGroupOffset state(
            int snapshot, int state, int leader, long start, int complete, long created,
            long written, List<PersisterStateBatch> batches) {
        return new ShareGroupOffset.Builder()
                .setSnapshotEpoch(snapshot)
                .setStateEpoch(state)
                .setLeaderEpoch(leader)
                .setStartOffset(start)
                .setDeliveryCompleteCount(complete)
                .setCreateTimestamp(created)
                .setWriteTimestamp(written)
                .setStateBatches(batches)
                .build();
    }

    static void emit(PrintWriter out, String kind, ShareGroupOffset state) {
        CoordinatorRecord record =
                switch (kind) {
                    case "snapshot" ->
                            ShareCoordinatorRecordHelpers.newShareSnapshotRecord("g", TOPIC, 3, state);
                    case "update" ->
                            ShareCoordinatorRecordHelpers.newShareUpdateRecord("g", TOPIC, 3, state);
                    default -> ShareCoordinatorRecordHelpers.newShareStateTombstoneRecord("g", TOPIC, 3);
                };
        ObjectNode line = MAPPER.createObjectNode();
        line.put("record", kind);
        line.put("key", HexFormat.of().formatHex(SERDE.serializeKey(record)));
        byte[] value = SERDE.serializeValue(record);
        line.put("value", value == null ? null : HexFormat.of().formatHex(value));
        out.println(line);
    }

    static void combine(PrintWriter out, Random random) {
        List<PersisterStateBatch> before = some(random);
        List<PersisterStateBatch> newer = some(random);
        long start = random.nextInt(12) - 1;
        ObjectNode line = MAPPER.createObjectNode();
        line.put("start", start);
        line.set("before", array(before));
        line.set("newer", array(newer));
        line.set(
                "combined",
                array(new PersisterStateBatchCombiner(before, newer, start).combineStateBatches()));
        out.println(line);
    }

    static List<PersisterStateBatch> some(Random random) {
        List<PersisterStateBatch> found = new ArrayList<>();
        byte[] states = {0, 2, 4};
        for (int number = random.nextInt(5); number > 0; number--) {
            long first = random.nextInt(20);
            found.add(
                    new PersisterStateBatch(
                            first,
                            first + random.nextInt(6),
                            states[random.nextInt(3)],
                            (short) (1 + random.nextInt(3))));
        }
        return found;
    }

    static ArrayNode array(List<PersisterStateBatch> batches) {
        ArrayNode found = MAPPER.createArrayNode();
        for (PersisterStateBatch one : batches) {
            found.addArray()
                    .add(one.firstOffset())
                    .add(one.lastOffset())
                    .add(one.deliveryState())
                    .add(one.deliveryCount());
        }
        return found;
    }
}
