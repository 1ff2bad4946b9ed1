package txnsim.junit;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * A client of the control port of a simulator, whoever has started it. What it has no method for is asked for with {@link
 * #ask}; the document of all of it is at {@code /openapi.json}. Answers that are looked at field by field are Jackson's trees.
 */
public class TxnsimClient {
    static final Duration WAIT = Duration.ofSeconds(45);
    private static final Duration RUN = Duration.ofMinutes(5);
    private static final long POLL_MS = 5;

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url;
    private final String token;
    private final Faults faults = new Faults(this);

    /**
     * A client of the control port at that address, for instance {@code http://127.0.0.1:9080}. Where the port wants a token,
     * it is that of the environment's {@code TXNSIM_TOKEN}.
     */
    public TxnsimClient(String url) {
        this(url, System.getenv("TXNSIM_TOKEN"));
    }

    /**
     * A client of a control port.
     *
     * @param token what the port wants; null or empty where it wants none
     */
    public TxnsimClient(String url, String token) {
        this.url = url.replaceAll("/$", "");
        this.token = token == null ? "" : token;
    }

    public final String url() {
        return url;
    }

    /** What clients take as {@code bootstrap.servers}. */
    public String bootstrap() {
        return ask("GET", "/healthz", null).get("bootstrap").asText();
    }

    public final Faults faults() {
        return faults;
    }

    /**
     * Asks for anything.
     *
     * @param body is sent as JSON; nothing is where it is null
     * @throws TxnsimException where it is refused; the message says what to do instead
     */
    public final JsonNode ask(String method, String path, Object body) {
        HttpRequest.BodyPublisher content =
                body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(Json.text(body));
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).method(method, content);
        if (!token.isEmpty()) {
            request.header("Authorization", "Bearer " + token);
        }
        HttpResponse<String> response = send(request.build(), method + " " + path);
        if (response.statusCode() >= 400) {
            JsonNode problem = Json.read(response.body());
            throw new TxnsimException(response.statusCode(), problem.path("error").asText(response.body()));
        }
        return Json.read(response.body());
    }

    /**
     * What happened, for people: the story, what unfinished transactions wait for, the fault rules and their hits. The extension
     * prints it after a test that has failed.
     */
    public final String report() {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + "/api/v1/report"));
        if (!token.isEmpty()) {
            request.header("Authorization", "Bearer " + token);
        }
        return send(request.build(), "GET /api/v1/report").body();
    }

    private HttpResponse<String> send(HttpRequest request, String requestLine) {
        try {
            return http.send(request, HttpResponse.BodyHandlers.ofString());
        } catch (IOException failure) {
            throw new TxnsimException(0, requestLine + " at " + url + ": " + failure);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new TxnsimException(0, requestLine + " was interrupted");
        }
    }

    // Topics, brokers, clock

    public final void createTopic(String name, int partitions, Map<String, String> configs) {
        ask("POST", "/api/v1/topics", Map.of("name", name, "partitions", partitions, "configs", configs));
    }

    /** A topic with the offsets of every replica. */
    public final JsonNode topic(String name) {
        return ask("GET", "/api/v1/topics/" + encoded(name), null);
    }

    public final void killBroker(int broker, boolean loseUnflushed) {
        ask("POST", "/api/v1/brokers/" + broker + "/kill", Map.of("lose_unflushed", loseUnflushed));
    }

    public final void stopBroker(int broker) {
        ask("POST", "/api/v1/brokers/" + broker + "/stop", null);
    }

    public final void startBroker(int broker) {
        ask("POST", "/api/v1/brokers/" + broker + "/start", null);
    }

    public final void moveLeader(String topic, int partition, int leader) {
        ask("POST", "/api/v1/leaders", Map.of("topic", topic, "partition", partition, "leader", leader));
    }

    /**
     * Transaction timeouts and expiry go by the cluster clock; what a fault has lost between brokers times out by it too.
     *
     * @param by whole milliseconds
     */
    public final void advanceClock(Duration duration) {
        if (duration.toNanosPart() % 1_000_000 != 0) {
            throw new IllegalArgumentException(duration + " is no whole number of milliseconds: the cluster clock goes by those");
        }
        ask("POST", "/api/v1/clock", Map.of("advance_ms", duration.toMillis()));
    }

    // Between tests

    /** Names the present state: topics, configs, features; no records. */
    public final void snapshot(String name) {
        ask("POST", "/api/v1/snapshots", Map.of("name", name));
    }

    /** Makes it a fresh cluster on the same ports, as it was started. Close your clients before. */
    public final void reset() {
        reset("start");
    }

    /** Does the same with the topics and settings of a snapshot. */
    public final void reset(String snapshot) {
        ask("POST", "/api/v1/reset", Map.of("to", snapshot));
    }

    // Transactions

    public final JsonNode transactions() {
        return ask("GET", "/api/v1/transactions", null);
    }

    public final JsonNode transaction(String transactionalId) {
        return ask("GET", "/api/v1/transactions/" + encoded(transactionalId), null);
    }

    /** Waits, for 45 s at most, until a transactional id is in one of these states. */
    public final JsonNode waitForTransaction(String transactionalId, String... states) {
        return waitForTransaction(transactionalId, WAIT, states);
    }

    /**
     * Waits until a transactional id is in one of these states.
     *
     * @throws TxnsimException where it is in none of them by then; the message says what it waits for
     */
    public final JsonNode waitForTransaction(String transactionalId, Duration atMost, String... states) {
        StringBuilder path = new StringBuilder("/api/v1/transaction-wait?timeout_ms=" + atMost.toMillis()
                + "&transactional_id=" + encoded(transactionalId));
        for (String state : states) {
            path.append("&state=").append(encoded(state));
        }
        return ask("GET", path.toString(), null);
    }

    /** Transactions that are open on partitions and that no marker will ever end. */
    public final JsonNode hangingTransactions() {
        return ask("GET", "/api/v1/open-transactions?verdict=hanging", null);
    }

    /** Fails the test if there are any. */
    public final void assertNoHangingTransactions() {
        holds("GET", "/api/v1/assertions/no-hanging-transactions", null);
    }

    // Exactly once

    /**
     * The values that a {@code read_committed} reader of a topic gets, by partition and offset; null for a record without one.
     * Transactions that are open have two seconds to end.
     */
    public final List<String> committed(String topic) {
        List<String> values = new ArrayList<>();
        ask("GET", "/api/v1/topics/" + encoded(topic) + "/committed", null)
                .forEach(value -> values.add(value.isNull() ? null : value.asText()));
        return values;
    }

    /**
     * Everything in the input is in the output once, and nothing else is. Only committed records count.
     *
     * @throws AssertionError the message names values that are missing, duplicates, and values of aborted input
     */
    public final void assertExactlyOnce(String inputTopic, String outputTopic) {
        exactlyOnce(inputTopic, outputTopic);
    }

    /** The same with the values that are owed, where an application derives them from its input. */
    public final void assertExactlyOnce(Collection<String> owed, String outputTopic) {
        exactlyOnce(owed, outputTopic);
    }

    private void exactlyOnce(Object input, Object output) {
        holds("POST", "/api/v1/assertions/exactly-once", Map.of("input", input, "output", output));
    }

    /** Asks a question whose answer 409 means no. */
    final void holds(String method, String path, Object body) {
        try {
            ask(method, path, body);
        } catch (TxnsimException refusal) {
            if (refusal.status() == 409) {
                throw new AssertionError(refusal.getMessage(), refusal);
            }
            throw refusal;
        }
    }

    /** An empty history; {@code who} is the name of the client that is noted. */
    public final History history(String who) {
        return new History(this, who);
    }

    // Scenarios

    /** Plays a shipped scenario, by name or alias, in a virtual cluster of its own: label of each run, and its verdict. */
    public final Map<String, String> runScenario(String name) {
        return runScenario(name, RUN);
    }

    /**
     * The same with another time than five minutes.
     *
     * @throws TxnsimException where it has not ended by then
     */
    public final Map<String, String> runScenario(String name, Duration atMost) {
        return run(Map.of("name", name), atMost);
    }

    /** Plays a scenario that is given as YAML. */
    public final Map<String, String> runScenarioText(String yaml) {
        return runScenarioText(yaml, RUN);
    }

    /** The same with another time than five minutes. */
    public final Map<String, String> runScenarioText(String yaml, Duration atMost) {
        return run(Map.of("yaml", yaml), atMost);
    }

    private Map<String, String> run(Map<String, String> scenario, Duration atMost) {
        long giveUp = System.nanoTime() + atMost.toNanos();
        JsonNode result = ask("POST", "/api/v1/runs?wait_ms=10000", scenario);
        while (result.get("state").asText().equals("running")) {
            if (System.nanoTime() > giveUp) {
                throw new TxnsimException(0, result.get("scenario").asText() + " has not ended within " + atMost);
            }
            result = ask("GET", "/api/v1/runs/" + result.get("id").asText() + "?wait_ms=10000", null);
        }
        if (!result.get("state").asText().equals("done")) {
            throw new TxnsimException(0, result.get("error").asText());
        }
        Map<String, String> observed = new java.util.LinkedHashMap<>();
        result.get("runs").forEach(run -> observed.put(run.get("run").asText(), run.get("observed").asText()));
        return observed;
    }

    static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    static void pause() {
        try {
            Thread.sleep(POLL_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new TxnsimException(0, "interrupted");
        }
    }
}
