package txnsim.junit;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A simulator that this process has started: it ends with {@link #close}, or, however the tests end, with its standard input. */
public final class TxnsimCluster extends TxnsimClient implements AutoCloseable {
    private static final Duration START_TIMEOUT = Duration.ofSeconds(90);
    private static final long STOP_TIMEOUT_S = 60;

    private final Process process;
    private final Path directory;
    private final String bootstrap;

    private TxnsimCluster(Process process, Path directory, JsonNode ready) {
        super(ready.get("http").asText(), ready.path("token").asText());
        this.process = process;
        this.directory = directory;
        this.bootstrap = ready.get("bootstrap").asText();
    }

    /** What to start; without anything three brokers at {@code transaction.version} 2. */
    public static final class Options {
        private int brokers = 3;
        private int transactionVersion = 2;
        private String asVersion = "";
        private String command = System.getenv().getOrDefault("TXNSIM", "txnsim");
        private final List<String> topics = new ArrayList<>();
        private final Map<String, Object> settings = new HashMap<>();

        public Options brokers(int count) {
            brokers = count;
            return this;
        }

        public Options transactionVersion(int level) {
            transactionVersion = level;
            return this;
        }

        /** A topic to create at start. */
        public Options topic(String name, int partitions) {
            return topic(name + ":" + partitions);
        }

        /** A topic to create at start, as {@code orders} or {@code orders:3}; {@code serve} reads it and refuses what is wrong. */
        public Options topic(String topic) {
            topics.add(topic);
            return this;
        }

        /** By Kafka's names, as in {@code server.properties}. */
        public Options settings(Map<String, ?> byName) {
            settings.putAll(byName);
            return this;
        }

        /** The Kafka release to behave as, for instance {@code 3.9}. */
        public Options asVersion(String release) {
            asVersion = release;
            return this;
        }

        /** What to run; the environment's {@code TXNSIM} unless given, else {@code txnsim} of the path. */
        public Options command(String path) {
            command = path;
            return this;
        }

        private List<String> commandLine(Path directory, Path readyFile) throws IOException {
            List<String> arguments = new ArrayList<>(List.of(command, "serve", "--port", "0", "--http", "0", "--until-eof"));
            arguments.addAll(List.of("--ready-file", readyFile.toString(), "--brokers", String.valueOf(brokers)));
            arguments.addAll(List.of("--transaction-version", String.valueOf(transactionVersion), "--trace", "brief", "--json"));
            arguments.add("--ready-coordinators");
            if (!asVersion.isEmpty()) {
                arguments.addAll(List.of("--as-version", asVersion));
            }
            topics.forEach(topic -> arguments.addAll(List.of("--topic", topic)));
            if (!settings.isEmpty()) {
                Path file = directory.resolve("settings.yaml");
                Files.writeString(file, Json.text(Map.of("settings", settings))); // JSON is YAML
                arguments.addAll(List.of("--config", file.toString()));
            }
            return arguments;
        }
    }

    /**
     * Starts a cluster on free ports.
     *
     * @throws TxnsimException where it does not start; the message has what it printed
     */
    public static TxnsimCluster start(Options options) {
        try {
            Path directory = Files.createTempDirectory("txnsim-");
            Path readyFile = directory.resolve("ready.json");
            Path output = directory.resolve("output.log");
            ProcessBuilder builder = new ProcessBuilder(options.commandLine(directory, readyFile));
            builder.redirectErrorStream(true).redirectOutput(output.toFile());
            Process process;
            try {
                process = builder.start();
            } catch (IOException failure) {
                remove(directory);
                throw new TxnsimException(0, "txnsim can't be started: " + failure.getMessage()
                        + "; install it (pip install '.[http]' in a checkout of txnsim), or name it in TXNSIM");
            }
            return new TxnsimCluster(process, directory, await(process, readyFile, output));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static JsonNode await(Process process, Path readyFile, Path output) throws IOException {
        Instant giveUp = Instant.now().plus(START_TIMEOUT);
        while (!Files.exists(readyFile)) {
            if (!process.isAlive() || Instant.now().isAfter(giveUp)) {
                process.destroyForcibly();
                throw new TxnsimException(0, "txnsim did not get ready:\n" + Files.readString(output));
            }
            pause();
        }
        return Json.read(Files.readString(readyFile));
    }

    @Override
    public String bootstrap() {
        return bootstrap;
    }

    /** What the simulator has printed. */
    public String said() {
        try {
            return Files.readString(directory.resolve("output.log"));
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(STOP_TIMEOUT_S, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new TxnsimException(0, "txnsim did not end within " + STOP_TIMEOUT_S + " s:\n" + said());
            }
            if (process.exitValue() != 0) {
                throw new TxnsimException(0, "txnsim ended with " + process.exitValue() + ":\n" + said());
            }
            remove(directory);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static void remove(Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
