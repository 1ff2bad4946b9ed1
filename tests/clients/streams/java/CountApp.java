import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * The counting application as a program of its own, which may be killed at any moment.
 *
 * <p>{@code CountApp INPUT OUTPUT FILE}: the file holds Kafka Streams' settings. Each state it comes to is a line of its
 * output, {@code STATE RUNNING}; SIGTERM closes it. Exit status 3 if it stopped by itself, which it never should;
 * with {@code -Dcounting.after.failure=REPLACE_THREAD} another thread goes on.
 */
public final class CountApp {
    private static final Duration CLOSE_PATIENCE = Duration.ofSeconds(20);
    private static final int STOPPED_BY_ITSELF = 3;
    private static final StreamThreadExceptionResponse AFTER_FAILURE =
            StreamThreadExceptionResponse.valueOf(System.getProperty("counting.after.failure", "SHUTDOWN_CLIENT"));

    private CountApp() {}

    public static void main(String[] args) throws IOException, InterruptedException {
        if (args.length != 3) {
            System.err.println("usage: CountApp INPUT OUTPUT SETTINGS_FILE");
            System.exit(2);
        }
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(args[2])) {
            settings.load(file);
        }
        KafkaStreams streams = new KafkaStreams(CountsTopology.of(args[0], args[1]), settings);
        CountDownLatch stopped = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(failure -> {
            System.out.println("FAILED " + failure);
            failure.printStackTrace();
            return AFTER_FAILURE;
        });
        streams.setStateListener((now, before) -> {
            System.out.println("STATE " + now);
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                stopped.countDown();
            }
        });
        Thread closing = new Thread(() -> streams.close(CLOSE_PATIENCE), "closing");
        Runtime.getRuntime().addShutdownHook(closing);
        streams.start();
        stopped.await();
        if (streams.state() == KafkaStreams.State.ERROR) {
            Runtime.getRuntime().halt(STOPPED_BY_ITSELF);
        }
    }
}
