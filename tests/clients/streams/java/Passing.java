import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/**
 * An application that passes each value on, and does on the way what the value says: {@code commit...} asks for a commit,
 * {@code fail...} fails once, {@code stall...} waits once until the check lets it go on.
 */
final class Passing {
    private final Map<String, CountDownLatch> stalled = new ConcurrentHashMap<>();
    private final Map<String, CountDownLatch> released = new ConcurrentHashMap<>();
    private final Map<String, Boolean> failed = new ConcurrentHashMap<>();

    Topology topology(StreamsLab lab) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(lab.input, Consumed.with(Serdes.String(), Serdes.String()))
                .process(() -> new Step())
                .to(lab.output, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    /** Wait until a value has stalled its thread. */
    void awaitStalled(String value) throws InterruptedException {
        boolean isSo = gate(stalled, value).await(StreamsLab.PATIENCE.toSeconds(), TimeUnit.SECONDS);
        StreamsLab.expect(isSo, value + " did not arrive");
    }

    void release(String value) {
        gate(released, value).countDown();
    }

    private static CountDownLatch gate(Map<String, CountDownLatch> gates, String value) {
        return gates.computeIfAbsent(value, unused -> new CountDownLatch(1));
    }

    private final class Step extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            String value = record.value();
            context().forward(record);
            if (value.startsWith("commit")) {
                context().commit();
            }
            if (value.startsWith("fail") && failed.put(value, true) == null) {
                throw new IllegalStateException("asked to fail by " + value);
            }
            if (value.startsWith("stall") && gate(stalled, value).getCount() > 0) {
                gate(stalled, value).countDown();
                stall(value);
            }
        }

        private void stall(String value) {
            try {
                gate(released, value).await();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
