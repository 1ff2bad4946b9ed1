import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts words: the values of the input topic are grouped by themselves, counted, and each new count is written.
 *
 * <p>It has all that a transaction of Kafka Streams can hold: records of a repartition topic, of a changelog and of an
 * output topic, and positions in two topics. Nothing is cached, so each input leads to exactly one output: the values
 * of a key are 1, 2, 3 and so on, without gap or duplicate, whatever happens to the program.
 */
final class CountsTopology {
    static final String STORE = "counts";
    static final String BY_WORD = "by-word";

    private CountsTopology() {}

    static Topology of(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
                .groupBy((key, word) -> word, Grouped.with(BY_WORD, Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long())
                        .withCachingDisabled())
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    static String repartitionTopic(String application) {
        return application + "-" + BY_WORD + "-repartition";
    }

    static String changelogTopic(String application) {
        return application + "-" + STORE + "-changelog";
    }
}
