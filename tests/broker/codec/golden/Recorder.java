// Writes messages and batches with Apache Kafka's own classes, so that our bytes have a judge.
//
//     java -cp 'libs/*' Recorder.java OUTPUT_DIRECTORY API_KEY...
//
// messages.jsonl: for each API, version, direction and variant the values and their bytes.
//   full: every field set, all numbers distinct; bare: defaults, nulls, empty arrays;
//   edge: extreme numbers, long and non-ASCII strings, empty bytes.
// batches.jsonl: record batches and transaction markers. release.json: versions and features.

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;
import org.apache.kafka.server.common.Feature;

public class Recorder {
    static final ObjectMapper MAPPER =
        new ObjectMapper().configure(JsonParser.Feature.ALLOW_COMMENTS, true);
    static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        Path output = Path.of(args[0]);
        try (PrintWriter out = writer(output, "messages.jsonl")) {
            for (int i = 1; i < args.length; i++)
                recordApi(out, ApiKeys.forId(Integer.parseInt(args[i])));
        }
        try (PrintWriter out = writer(output, "batches.jsonl")) {
            recordBatches(out);
        }
        try (PrintWriter out = writer(output, "release.json")) {
            recordRelease(out);
        }
    }

    static PrintWriter writer(Path directory, String name) throws Exception {
        return new PrintWriter(
            Files.newBufferedWriter(directory.resolve(name), StandardCharsets.UTF_8));
    }

    // Messages

    static void recordApi(PrintWriter out, ApiKeys api) throws Exception {
        ApiMessageType type = api.messageType;
        for (String direction : new String[] {"Request", "Response"}) {
            String resource = "/common/message/" + type.name + direction + ".json";
            JsonNode spec = MAPPER.readTree(ApiKeys.class.getResourceAsStream(resource));
            for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(true); v++) {
                String last = "";
                for (String variant : new String[] {"full", "bare", "edge"}) {
                    ObjectNode line = recordMessage(type, direction, spec, v, variant);
                    String hex = line.get("hex").textValue();
                    if (!hex.equals(last))
                        out.println(MAPPER.writeValueAsString(line));
                    last = hex;
                }
            }
        }
    }

    static ObjectNode recordMessage(
        ApiMessageType type, String direction, JsonNode spec, short version, String variant)
        throws Exception {
        ObjectNode values = new Values(spec, version, variant).struct(spec.get("fields"));
        String data = "org.apache.kafka.common.message." + type.name + direction + "Data";
        ApiMessage message = (ApiMessage) Class.forName(data + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, values, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBufferAccessor body =
            new ByteBufferAccessor(ByteBuffer.allocate(message.size(cache, version)));
        message.write(body, cache, version);
        ObjectNode line = NODES.objectNode();
        line.put("api", type.apiKey()).put("version", version);
        line.put("direction", direction.toLowerCase()).put("variant", variant);
        if (direction.equals("Request")) {
            String clientId = variant.equals("bare") ? null : "client-ü";
            RequestHeader header =
                new RequestHeader(ApiKeys.forId(type.apiKey()), version, clientId, 4242);
            ByteBuffer bytes = RequestUtils.serialize(
                header.data(), header.headerVersion(), message, version);
            line.put("headerVersion", header.headerVersion());
            int headerSize = bytes.limit() - body.buffer().limit();
            line.put("header", HEX.formatHex(bytes.array(), 0, headerSize));
        } else {
            line.put("headerVersion", type.responseHeaderVersion(version));
        }
        line.put("hex", HEX.formatHex(body.buffer().array()));
        line.set("values", values);
        return line;
    }

    /** Makes up values for a message, following its specification file. */
    static class Values {
        final short version;
        final String variant;
        final Map<String, JsonNode> common = new HashMap<>();
        int counter = 0;

        Values(JsonNode spec, short version, String variant) {
            this.version = version;
            this.variant = variant;
            if (spec.has("commonStructs"))
                for (JsonNode struct : spec.get("commonStructs"))
                    common.put(struct.get("name").textValue(), struct.get("fields"));
        }

        ObjectNode struct(JsonNode fields) {
            ObjectNode node = NODES.objectNode();
            for (JsonNode field : fields) {
                if (!covers(field.get("versions")))
                    continue;
                boolean tagged = covers(field.get("taggedVersions"));
                if (tagged && variant.equals("bare"))
                    continue;
                String name = field.get("name").textValue();
                name = Character.toLowerCase(name.charAt(0)) + name.substring(1);
                boolean nullable = covers(field.get("nullableVersions"));
                if (nullable && variant.equals("bare"))
                    node.putNull(name);
                else
                    node.set(name, value(field, field.get("type").textValue(), name));
            }
            return node;
        }

        boolean covers(JsonNode versions) {
            if (versions == null || versions.textValue().equals("none"))
                return false;
            String[] ends = versions.textValue().split("-");
            if (versions.textValue().endsWith("+"))
                return version >= Short.parseShort(versions.textValue().replace("+", ""));
            return version >= Short.parseShort(ends[0])
                && version <= Short.parseShort(ends[ends.length - 1]);
        }

        JsonNode value(JsonNode field, String type, String name) {
            boolean bare = variant.equals("bare");
            boolean edge = variant.equals("edge");
            if (type.startsWith("[]")) {
                ArrayNode array = NODES.arrayNode();
                for (int i = 0; i < (bare ? 0 : edge ? 1 : 2); i++)
                    array.add(value(field, type.substring(2), name));
                return array;
            }
            counter++;
            switch (type) {
                case "bool":
                    return NODES.booleanNode(!bare);
                case "int8":
                    return NODES.numberNode(bare ? 0 : edge ? -128 : counter % 120 + 1);
                case "int16":
                    if (name.endsWith("rrorCode"))
                        return NODES.numberNode(bare ? 0 : edge ? -1 : counter % 130 + 1);
                    return NODES.numberNode(bare ? 0 : edge ? -32768 : 1000 + counter);
                case "uint16":
                    return NODES.numberNode(bare ? 0 : edge ? 65535 : 40000 + counter);
                case "int32":
                    return NODES.numberNode(bare ? 0 : edge ? Integer.MIN_VALUE : 100000 + counter);
                case "uint32":
                    return NODES.numberNode(bare ? 0L : edge ? 0xFFFFFFFFL : 3000000000L + counter);
                case "int64":
                    if (name.endsWith("TimeMs") || name.endsWith("TimestampMs"))
                        return NODES.numberNode(bare ? 0L : edge ? -1L : 1700000000123L + counter);
                    if (name.endsWith("Ms"))
                        return NODES.numberNode(bare ? 0L : edge ? 86400000123L : 70000L + counter);
                    return NODES.numberNode(bare ? 0L : edge ? Long.MIN_VALUE : 5000000000L + counter);
                case "float64":
                    return NODES.numberNode(bare ? 0.0 : edge ? -1.5e300 : counter + 0.25);
                case "string":
                    return NODES.textNode(
                        bare ? "" : edge ? "größe-" + "x".repeat(150) + counter : name + "-" + counter);
                case "bytes":
                    return NODES.binaryNode(bare || edge ? new byte[0] : new byte[] {1, 0, (byte) counter});
                case "records":
                    return NODES.binaryNode(bare || edge ? new byte[0] : someBatch(counter));
                case "uuid":
                    return NODES.textNode((bare ? Uuid.ZERO_UUID : new Uuid(counter, -counter)).toString());
                default:
                    JsonNode fields = field.get("fields");
                    return struct(fields != null ? fields : common.get(type));
            }
        }
    }

    static byte[] someBatch(int seed) {
        MemoryRecords records = MemoryRecords.withRecords(
            Compression.NONE, new SimpleRecord(1700000000123L + seed, null, new byte[] {(byte) seed}));
        return bytes(records);
    }

    static byte[] bytes(MemoryRecords records) {
        byte[] result = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(result);
        return result;
    }

    // Batches

    static final SimpleRecord[] RECORDS = {
        record(1700000000123L, "key", "value"),
        record(1700000000122L, null, "no key, earlier"),
        record(1700000009999L, "tombstone", null),
        record(1700000000123L, null, null),
        record(1700000000124L, "", ""),
        record(1700000000125L, "ключ", "x".repeat(300),
            new RecordHeader("h1", "v1".getBytes(StandardCharsets.UTF_8)),
            new RecordHeader("größe", null), new RecordHeader("", new byte[0])),
    };

    static SimpleRecord record(long timestamp, String key, String value, Header... headers) {
        return new SimpleRecord(timestamp, utf8(key), utf8(value), headers);
    }

    static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static void recordBatches(PrintWriter out) throws Exception {
        Map<String, Compression> codecs = Map.of(
            "none", Compression.NONE, "gzip", Compression.gzip().build(),
            "snappy", Compression.snappy().build(), "lz4", Compression.lz4().build(),
            "zstd", Compression.zstd().build());
        for (String name : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
            Compression codec = codecs.get(name);
            emit(out, name + " plain", build(codec, TimestampType.CREATE_TIME, -1L, -1, -1, false, 0));
            emit(out, name + " transactional",
                build(codec, TimestampType.CREATE_TIME, 4711L, 3, 2147483645, true, 9000000000L));
            emit(out, name + " log append time",
                build(codec, TimestampType.LOG_APPEND_TIME, 5L, 0, 0, false, 17));
        }
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.COMMIT, ControlRecordType.ABORT}) {
            MemoryRecords marker = MemoryRecords.withEndTransactionMarker(
                12345L, 1700000000123L, 7, 4711L, (short) 32766, new EndTransactionMarker(type, 21));
            emit(out, type.name().toLowerCase() + " marker", marker);
        }
    }

    static MemoryRecords build(
        Compression codec, TimestampType type, long producerId, int epoch, int sequence,
        boolean transactional, long baseOffset) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(4096), RecordBatch.CURRENT_MAGIC_VALUE, codec, type, baseOffset,
            type == TimestampType.LOG_APPEND_TIME ? 1711111111111L : RecordBatch.NO_TIMESTAMP,
            producerId, (short) epoch, sequence, transactional, 11);
        for (SimpleRecord record : RECORDS)
            builder.append(record);
        return builder.build();
    }

    static void emit(PrintWriter out, String name, MemoryRecords records) throws Exception {
        RecordBatch batch = records.batches().iterator().next();
        ObjectNode line = NODES.objectNode().put("name", name);
        line.put("baseOffset", batch.baseOffset()).put("lastOffset", batch.lastOffset());
        line.put("leaderEpoch", batch.partitionLeaderEpoch()).put("size", batch.sizeInBytes());
        line.put("crc", batch.checksum()).put("maxTimestamp", batch.maxTimestamp());
        line.put("producerId", batch.producerId()).put("producerEpoch", batch.producerEpoch());
        line.put("baseSequence", batch.baseSequence()).put("lastSequence", batch.lastSequence());
        line.put("count", batch.countOrNull()).put("compression", batch.compressionType().id);
        line.put("transactional", batch.isTransactional()).put("control", batch.isControlBatch());
        line.put("logAppendTime", batch.timestampType() == TimestampType.LOG_APPEND_TIME);
        ArrayNode array = line.putArray("records");
        for (org.apache.kafka.common.record.internal.Record record : batch) {
            ObjectNode node = array.addObject();
            node.put("offset", record.offset()).put("timestamp", record.timestamp());
            node.put("sequence", record.sequence());
            node.put("key", hex(record.hasKey() ? record.key() : null));
            node.put("value", hex(record.hasValue() ? record.value() : null));
            ArrayNode headers = node.putArray("headers");
            for (Header header : record.headers())
                headers.addArray().add(header.key())
                    .add(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
        }
        line.put("hex", HEX.formatHex(bytes(records)));
        out.println(MAPPER.writeValueAsString(line));
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] result = new byte[buffer.remaining()];
        buffer.duplicate().get(result);
        return HEX.formatHex(result);
    }

    // Release

    static void recordRelease(PrintWriter out) throws Exception {
        ObjectNode release = NODES.objectNode();
        ObjectNode broker = release.putObject("broker");
        for (ApiKeys api : ApiKeys.brokerApis())
            api.toApiVersionForApiResponse(false, ApiMessageType.ListenerType.BROKER).ifPresent(
                v -> broker.putArray("" + api.id).add(v.minVersion()).add(v.maxVersion()));
        ObjectNode oldest = release.putObject("oldest");
        for (ApiKeys api : ApiKeys.brokerApis())
            oldest.put("" + api.id, api.oldestVersion());
        ObjectNode controller = release.putObject("controller");
        for (ApiKeys api : ApiKeys.controllerApis())
            api.toApiVersionForApiResponse(false, ApiMessageType.ListenerType.CONTROLLER).ifPresent(
                v -> controller.putArray("" + api.id).add(v.minVersion()).add(v.maxVersion()));
        ObjectNode features = release.putObject("features");
        for (Feature feature : Feature.PRODUCTION_FEATURES)
            features.putArray(feature.featureName()).add(feature.minimumProduction())
                .add(feature.latestProduction())
                .add(feature.defaultLevel(org.apache.kafka.server.common.MetadataVersion.LATEST_PRODUCTION));
        features.putArray("metadata.version")
            .add(org.apache.kafka.server.common.MetadataVersion.MINIMUM_VERSION.featureLevel())
            .add(org.apache.kafka.server.common.MetadataVersion.LATEST_PRODUCTION.featureLevel())
            .add(org.apache.kafka.server.common.MetadataVersion.LATEST_PRODUCTION.featureLevel());
        out.println(MAPPER.writerWithDefaultPrettyPrinter().writeValueAsString(release));
    }
}
