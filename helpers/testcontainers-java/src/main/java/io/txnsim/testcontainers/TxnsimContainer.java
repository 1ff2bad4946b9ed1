package io.txnsim.testcontainers;

import com.github.dockerjava.api.command.InspectContainerResponse;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;
import java.util.UUID;
import java.util.function.IntUnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A simulated Kafka cluster in a container.
 *
 * <p>A broker tells its clients where to come back to, and Testcontainers publishes ports that are not
 * known before the container runs. So the container first waits for a script, which is copied into it
 * once the ports are known, and which starts the brokers with these addresses (Testcontainers' own
 * KafkaContainer does it in the same way).
 */
public class TxnsimContainer extends GenericContainer<TxnsimContainer> {
    /** Port of the first broker inside of the container; the others follow. */
    public static final int KAFKA_PORT = 9092;

    /** The control port inside of the container. */
    public static final int CONTROL_PORT = 9080;

    static final String STARTER = "/tmp/txnsim-start.sh";

    private static final int SCRIPT_MODE = 0755;

    private static final Duration START_TIMEOUT = Duration.ofSeconds(90);

    private static final int ASK_TIMEOUT_MS = 10_000;

    /** The reason of a refusal, which is JSON. */
    private static final Pattern REASON = Pattern.compile("\\{\"error\":\"((?:[^\"\\\\]++|\\\\[\"\\\\bfnrt])*+)\"");

    private final StringJoiner topics = new StringJoiner(",");
    private int brokers = 3;
    private String token = UUID.randomUUID().toString();
    private boolean faultsMayMiss;
    private boolean serves;

    /**
     * A cluster of three brokers.
     *
     * @param image the image, as built from the Containerfile
     */
    public TxnsimContainer(String image) {
        this(DockerImageName.parse(image));
    }

    /**
     * A cluster of three brokers.
     *
     * @param image the image, as built from the Containerfile
     */
    public TxnsimContainer(DockerImageName image) {
        super(image);
        withCreateContainerCmdModifier(command -> command.withEntrypoint("sh"));
        withCommand("-c", "while [ ! -f " + STARTER + " ]; do sleep 0.05; done; exec sh " + STARTER);
        waitingFor(Wait.forHttp("/healthz").forPort(CONTROL_PORT).withStartupTimeout(START_TIMEOUT));
    }

    /** How many brokers; each takes a port. */
    public TxnsimContainer withBrokers(int number) {
        if (number < 1) {
            throw new IllegalArgumentException("a cluster needs at least one broker, not " + number);
        }
        brokers = number;
        return self();
    }

    /** A topic that is there from the start, replicated to up to three brokers. */
    public TxnsimContainer withTopic(String name, int partitions) {
        topics.add(name + ":" + partitions);
        return self();
    }

    /** Level of the feature transaction.version: 0, 1 or 2. */
    public TxnsimContainer withTransactionVersion(int level) {
        return withEnv("TXNSIM_TRANSACTION_VERSION", Integer.toString(level));
    }

    /** The release of Apache Kafka to behave as, such as 3.9. */
    public TxnsimContainer withRelease(String release) {
        return withEnv("TXNSIM_AS_VERSION", release);
    }

    /** A property of the brokers, by Kafka's name. */
    public TxnsimContainer withProperty(String name, String value) {
        return withEnv(variableOf(name), value);
    }

    /** Where clients connect to ({@code bootstrap.servers}). */
    public String getBootstrapServers() {
        return String.join(",", addresses(getHost(), brokers, this::getMappedPort));
    }

    /** The control port, for faults, the clock and all else: {@code /openapi.json} tells. */
    public URI getControlUri() {
        return URI.create("http://" + getHost() + ":" + getMappedPort(CONTROL_PORT));
    }

    /** What the control port wants: {@code Authorization: Bearer TOKEN}. A new one for each container unless one is set. */
    public String getControlToken() {
        return token;
    }

    /** The token that the control port wants; 16 to 256 letters, digits and characters of {@code -._~+/=}. */
    public TxnsimContainer withControlToken(String controlToken) {
        token = controlToken;
        return self();
    }

    /** A fault that never struck is no error when the container stops. */
    public TxnsimContainer withFaultsMayMiss() {
        faultsMayMiss = true;
        return self();
    }

    /**
     * Stops and removes the container; {@link #close} does the same.
     *
     * @throws AssertionError where a fault that was armed has never struck, or the control port does not answer
     */
    @Override
    public void stop() {
        boolean asks = serves && !faultsMayMiss;
        serves = false;
        try {
            if (asks) {
                assertAllFaultsStruck();
            }
        } finally {
            super.stop();
        }
    }

    private void assertAllFaultsStruck() {
        try {
            URI verify = getControlUri().resolve("/api/v1/faults/verify");
            HttpURLConnection connection = (HttpURLConnection) verify.toURL().openConnection(Proxy.NO_PROXY);
            connection.setRequestMethod("POST");
            connection.setRequestProperty("Authorization", "Bearer " + token);
            connection.setConnectTimeout(ASK_TIMEOUT_MS);
            connection.setReadTimeout(ASK_TIMEOUT_MS);
            if (connection.getResponseCode() >= 400) {
                try (InputStream errorBody = connection.getErrorStream()) {
                    throw new AssertionError(reason(new String(errorBody.readAllBytes(), StandardCharsets.UTF_8)));
                }
            }
        } catch (IOException failure) {
            throw new AssertionError(
                    "whether every fault has struck can't be asked: " + failure.getMessage()
                            + ". If the container is to end before its test, give it withFaultsMayMiss()",
                    failure);
        }
    }

    static String reason(String body) {
        Matcher refusal = REASON.matcher(body);
        return refusal.lookingAt() ? refusal.group(1).translateEscapes() : body;
    }

    @Override
    protected void configure() {
        super.configure();
        withExposedPorts(ports());
        withEnv("TXNSIM_BROKERS", Integer.toString(brokers));
        withEnv("TXNSIM_PORT", Integer.toString(KAFKA_PORT));
        withEnv("TXNSIM_HTTP_PORT", Integer.toString(CONTROL_PORT));
        withEnv("TXNSIM_TOKEN", token);
        if (topics.length() > 0) {
            withEnv("TXNSIM_TOPICS", topics.toString());
        }
    }

    @Override
    protected void containerIsStarting(InspectContainerResponse info) {
        super.containerIsStarting(info);
        String script = script(addresses(getHost(), brokers, this::getMappedPort));
        copyFileToContainer(Transferable.of(script, SCRIPT_MODE), STARTER);
    }

    @Override
    protected void containerIsStarted(InspectContainerResponse info) {
        super.containerIsStarted(info);
        serves = true;
    }

    Integer[] ports() {
        IntStream exposed = IntStream.concat(
                IntStream.range(KAFKA_PORT, KAFKA_PORT + brokers), IntStream.of(CONTROL_PORT));
        return exposed.boxed().toArray(Integer[]::new);
    }

    static List<String> addresses(String host, int brokers, IntUnaryOperator mapped) {
        return IntStream.range(0, brokers)
                .mapToObj(number -> host + ":" + mapped.applyAsInt(KAFKA_PORT + number))
                .toList();
    }

    static String script(List<String> addresses) {
        return "#!/bin/sh\n"
                + "export TXNSIM_ADVERTISED='" + String.join(",", addresses) + "'\n"
                + "exec python -m txnsim.testing.container --ready-coordinators\n";
    }

    /** The environment variable that stands for a property, as in the image apache/kafka. */
    static String variableOf(String property) {
        return "KAFKA_"
                + property.replace("_", "__").replace("-", "___").replace(".", "_").toUpperCase(Locale.ROOT);
    }
}
