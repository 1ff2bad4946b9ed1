package txnsim.junit;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Where faults are armed, watched and taken back. */
public final class Faults {
    private static final System.Logger LOG = System.getLogger("txnsim");

    private final TxnsimClient client;

    Faults(TxnsimClient client) {
        this.client = client;
    }

    /** Where a fault strikes, when, and what it does; docs/faults.md has every field. */
    public static final class Rule {
        private final Map<String, Object> fields = new LinkedHashMap<>();

        private Rule(String id, String point) {
            fields.put("id", id);
            fields.put("point", point);
        }

        /** A rule at a point, as {@code client.request}; what is not said matches everything. */
        public static Rule at(String point, String id) {
            return new Rule(id, point);
        }

        /** Kafka's name of the request, as {@code Produce}. */
        public Rule api(String name) {
            return with("api", name);
        }

        public Rule transactionalId(String transactionalId) {
            return with("transactional_id", transactionalId);
        }

        public Rule clientId(String clientId) {
            return with("client_id", clientId);
        }

        public Rule topic(String topic) {
            return with("topic", topic);
        }

        /** How many are struck; all of them unless it is said. */
        public Rule limit(int times) {
            return with("limit", times);
        }

        /** Any other field. */
        public Rule with(String field, Object value) {
            fields.put(field, value);
            return this;
        }

        /** Keeps what it strikes until the rule is released. */
        public Rule hold() {
            return does(Map.of("do", "hold"));
        }

        public Rule delay(Duration duration) {
            return does(Map.of("do", "delay", "delay_ms", duration.toMillis()));
        }

        public Rule drop() {
            return does(Map.of("do", "drop"));
        }

        /** Answers with an error of Kafka's, as {@code NOT_COORDINATOR}. */
        public Rule fail(String error) {
            return does(Map.of("do", "error", "error", error));
        }

        /** Any other action. */
        public Rule does(Map<String, Object> action) {
            return with("action", action);
        }
    }

    /** Puts rules in force, all of them or none; the log tells of one that can strike nothing. */
    public void arm(Rule... rules) {
        JsonNode armed =
                client.ask("POST", "/api/v1/faults/plan", List.of(rules).stream().map(rule -> rule.fields).toList());
        for (JsonNode fault : armed) {
            if (fault.hasNonNull("doubt")) {
                LOG.log(
                        System.Logger.Level.WARNING,
                        "the fault " + fault.at("/rule/id").asText() + " can strike nothing: " + fault.get("doubt").asText());
            }
        }
    }

    /** A rule in force and what has come of it: {@code matched}, {@code struck}, {@code held}, {@code released}. */
    public JsonNode get(String id) {
        return client.ask("GET", path(id), null);
    }

    /** Waits, for 45 s at most, until a rule has struck once. */
    public JsonNode waitUntilStruck(String id) {
        return waitUntilStruck(id, 1, TxnsimClient.WAIT);
    }

    /** Waits until a rule has struck once. */
    public JsonNode waitUntilStruck(String id, Duration atMost) {
        return waitUntilStruck(id, 1, atMost);
    }

    /**
     * Waits until a rule has struck so many times.
     *
     * @throws TxnsimException where it has not by then
     */
    public JsonNode waitUntilStruck(String id, int times, Duration atMost) {
        return client.ask("GET", path(id) + "/wait?struck=" + times + "&timeout_ms=" + atMost.toMillis(), null);
    }

    /** Lets go what a rule holds and says how many crossings that were; it stays in force. */
    public int release(String id) {
        return client.ask("POST", path(id) + "/release", null).get("released").asInt();
    }

    /** Takes a rule back; what it holds goes on. */
    public JsonNode disarm(String id) {
        return client.ask("DELETE", path(id), null);
    }

    public void disarmAll() {
        client.ask("DELETE", "/api/v1/faults", null);
    }

    /** Fails the test if a rule that was armed, in force or not, has never struck. The extension does it after each test. */
    public void verify() {
        client.holds("POST", "/api/v1/faults/verify", null);
    }

    /** Begins a new account: {@link #verify} judges only what is armed from now on, and what is in force. */
    public void forget() {
        try {
            client.ask("POST", "/api/v1/faults/verify?forget=true", null);
        } catch (TxnsimException refusal) {
            if (refusal.status() != 409) {
                throw refusal;
            }
        }
    }

    private static String path(String id) {
        return "/api/v1/faults/" + TxnsimClient.encoded(id);
    }
}
