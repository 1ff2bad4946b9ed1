import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.util.*;
import kafka.server.KafkaConfig;
import org.apache.kafka.coordinator.group.GroupConfig;

/**
 * KafkaConfig and GroupConfig of the jars, asked by lines of JSON on stdin: what a server.properties says of groups, and
 * configs for one group. After each line comes why the broker would not start, or why the configs are refused, as JSON;
 * null where they are taken. The lines are those of tests/support/group_config_draws.py.
 */
public class GroupConfigJudge {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = mapper.readTree(line);
            Properties broker = new Properties();
            broker.put("process.roles", "broker,controller");
            broker.put("node.id", "1");
            broker.put("controller.quorum.voters", "1@127.0.0.1:9093");
            broker.put("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093");
            broker.put("controller.listener.names", "CONTROLLER");
            asked.get(0).fields().forEachRemaining(one -> broker.put(one.getKey(), one.getValue().asText()));
            Map<String, String> group = new HashMap<>();
            asked.get(1).fields().forEachRemaining(one -> group.put(one.getKey(), one.getValue().asText()));
            String[] answer = new String[2];
            KafkaConfig config = null;
            try {
                config = KafkaConfig.fromProps(broker);
            } catch (Exception error) {
                answer[0] = error.getMessage();
            }
            if (config != null) {
                try {
                    GroupConfig.validate(group, config.groupCoordinatorConfig(), config.shareGroupConfig());
                } catch (Exception error) {
                    answer[1] = error.getMessage();
                }
            }
            out.println(mapper.writeValueAsString(answer));
        }
    }
}
