package txnsim.junit;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What the clients of a test saw, in order and in the words of docs/checkers.md; the checkers judge it. */
public final class History {
    private final TxnsimClient client;
    private final String who;
    private final List<Object> seen = new ArrayList<>();

    History(TxnsimClient client, String who) {
        this.client = client;
        this.who = who;
    }

    /** Notes what a client saw, for instance {@code add("began", Map.of("transaction", "t1", "transactional_id", "app"))}. */
    public void add(String event, Map<String, ?> fields) {
        Map<String, Object> observation = new HashMap<>(Map.of("seen", event, "who", who, "at_ms", System.currentTimeMillis()));
        observation.putAll(fields);
        seen.add(observation);
    }

    /** Adds what an onlooker sees of a partition over the wire. */
    public void look(String topic, int partition) {
        client.ask("POST", "/api/v1/looks", Map.of("topic", topic, "partition", partition)).forEach(seen::add);
    }

    /** What the checkers make of it: {@code healthy}, or kinds of anomalies by name. */
    public String judge() {
        JsonNode kinds = client.ask("POST", "/api/v1/verdicts", seen).get("kinds");
        List<String> names = new ArrayList<>();
        kinds.forEach(kind -> names.add(kind.asText()));
        return names.isEmpty() ? "healthy" : String.join(", ", names);
    }
}
