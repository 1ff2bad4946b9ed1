package shop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.util.ConnectorUtils;

/** Counts from 0 to below "until" in each of its shards, and knows how far it has come. */
public final class CounterSource extends SourceConnector {
    static final int SHARDS = 4;
    private static final ConfigDef CONFIG =
            new ConfigDef()
                    .define("topic", Type.STRING, Importance.HIGH, "where to write")
                    .define("until", Type.LONG, Importance.HIGH, "where a shard ends");

    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public void stop() {}

    @Override
    public Class<? extends Task> taskClass() {
        return Counter.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        var shards = IntStream.range(0, SHARDS).mapToObj(Integer::toString).toList();
        List<Map<String, String>> configs = new ArrayList<>();
        for (var group : ConnectorUtils.groupPartitions(shards, Math.min(SHARDS, maxTasks))) {
            Map<String, String> config = new HashMap<>(settings);
            config.put("shards", String.join(",", group));
            configs.add(config);
        }
        return configs;
    }

    @Override
    public ConfigDef config() {
        return CONFIG;
    }

    @Override
    public String version() {
        return "1";
    }

    /** Its offsets say all that there is to say, so a task goes on where it was committed. */
    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    /** One task: what one poll returns is one transaction, with the offsets in it. */
    public static final class Counter extends SourceTask {
        private static final int AT_ONCE = 2;

        private final Map<String, Long> next = new HashMap<>();
        private String topic;
        private long until;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            until = Long.parseLong(settings.get("until"));
            for (String shard : settings.get("shards").split(",")) {
                var offset = context.offsetStorageReader().offset(Map.of("shard", shard));
                next.put(shard, offset == null ? 0 : (Long) offset.get("count") + 1);
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(5);
            List<SourceRecord> records = new ArrayList<>();
            for (var shard : next.entrySet()) {
                for (int at = 0; at < AT_ONCE && shard.getValue() < until; at++) {
                    records.add(record(shard.getKey(), shard.getValue()));
                    shard.setValue(shard.getValue() + 1);
                }
            }
            return records.isEmpty() ? null : records;
        }

        private SourceRecord record(String shard, long count) {
            return new SourceRecord(
                    Map.of("shard", shard),
                    Map.of("count", count),
                    topic,
                    Schema.STRING_SCHEMA,
                    shard,
                    Schema.STRING_SCHEMA,
                    shard + "-" + count);
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }
}
