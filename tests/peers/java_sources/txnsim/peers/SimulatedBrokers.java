package txnsim.peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import scala.jdk.javaapi.CollectionConverters;

/** One {@code txnsim serve}, and its control port. */
public final class SimulatedBrokers implements AutoCloseable {

    private static final long START_TIMEOUT_MS = 60_000;
    private static final int STOP_TIMEOUT_MS = 20_000;
    private static final int POLL_MS = 20;
    private static final Set<String> AUTHORIZER =
        Set.of("allow.everyone.if.no.acl.found", "super.users");

    private final Process process;
    private final Path directory;
    private final JsonNode ready;

    /** Starts them, with ids from 0 as in Kafka's test kit, and returns when every listener accepts. */
    public SimulatedBrokers(int brokers, short transactionVersion, Map<String, String> properties) {
        try {
            directory = Files.createTempDirectory("txnsim-peer-");
            // What no broker knows, a broker ignores, and txnsim would refuse.
            Map<String, String> known = new TreeMap<>(properties);
            var names = CollectionConverters.asJava(KafkaConfig.configNames());
            known.keySet().removeIf(each -> !names.contains(each) && !isKnownBesides(each));
            Path config = directory.resolve("server.properties");
            Files.writeString(config, known.entrySet().stream()
                .map(each -> each.getKey() + "=" + each.getValue() + "\n")
                .collect(Collectors.joining()));
            Path readyFile = directory.resolve("ready.json");
            File log = directory.resolve("output.log").toFile();
            process = new ProcessBuilder(List.of(
                    System.getProperty("txnsim.command"), "serve", "--port", "0", "--http", "0",
                    "--brokers", String.valueOf(brokers), "--first-broker-id", "0",
                    "--transaction-version", String.valueOf(transactionVersion),
                    "--config", config.toString(),
                    "--until-eof",  // our end of the pipe closes also where this JVM is killed
                    "--ready-file", readyFile.toString()))
                .redirectErrorStream(true)
                .redirectOutput(log)
                .start();
            ready = await(readyFile, log.toPath());
        } catch (IOException | InterruptedException failure) {
            throw new IllegalStateException(failure);
        }
    }

    /** Configs of listeners have names of their own, and the authorizer reads its own ones. */
    private static boolean isKnownBesides(String name) {
        return name.startsWith("listener.name.") || AUTHORIZER.contains(name);
    }

    private JsonNode await(Path readyFile, Path log) throws IOException, InterruptedException {
        long deadlineMs = System.currentTimeMillis() + START_TIMEOUT_MS;
        while (!Files.exists(readyFile)) {
            if (process.waitFor(POLL_MS, TimeUnit.MILLISECONDS)
                    || System.currentTimeMillis() > deadlineMs) {
                String said = Files.readString(log).strip().lines().findFirst().orElse("");
                close();
                throw new IllegalStateException("txnsim serve: " + said.replace(directory + "/", ""));
            }
        }
        return new ObjectMapper().readTree(readyFile.toFile());
    }

    /** A client of its own. */
    public Admin admin() {
        return Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap()));
    }

    public String bootstrap() {
        return ready.get("bootstrap").asText();
    }

    /** Stops or starts one broker. */
    public void control(int brokerId, String verb) {
        String address = ready.get("http").asText() + "/api/v1/brokers/" + brokerId + "/" + verb;
        try {
            HttpURLConnection connection =
                (HttpURLConnection) URI.create(address).toURL().openConnection();
            connection.setRequestMethod("POST");
            int status = connection.getResponseCode();
            if (status == HttpURLConnection.HTTP_OK || status == HttpURLConnection.HTTP_CONFLICT) {
                return;
            }
            try (InputStream said = connection.getErrorStream()) {
                String why = said == null ? "" : new String(said.readAllBytes());
                throw new IllegalStateException(verb + " broker " + brokerId + ": " + why);
            }
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(STOP_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
                process.destroyForcibly().waitFor();
            }
            File[] files = directory.toFile().listFiles();
            for (File file : files == null ? new File[0] : files) {
                Files.delete(file.toPath());
            }
            Files.delete(directory);
        } catch (IOException | InterruptedException failure) {
            throw new IllegalStateException(failure);
        }
    }
}
