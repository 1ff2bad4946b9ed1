package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.AbstractMap.SimpleEntry;
import java.util.Map;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * The controller's ConfigurationControlManager of the jars with the schema of a real controller, asked by lines of JSON
 * on stdin: kind and name of a config, its value (null: none), and operations that are applied one after the other.
 * After each line comes the value, or the refusal, as JSON. What values mean is not checked, as the resources are none.
 * In this package, as the class's methods are its own. The lines are those of tests/support/list_config_draws.py.
 */
public class ListConfigJudge {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(mapper.writeValueAsString(answer(mapper.readTree(line))));
    }

    private static String[] answer(JsonNode question) {
        ConfigResource.Type type = ConfigResource.Type.valueOf(question.get(0).asText().toUpperCase());
        String name = question.get(1).asText();
        ConfigResource resource = new ConfigResource(type, type == ConfigResource.Type.BROKER ? "" : "r");
        ConfigurationControlManager manager = new ConfigurationControlManager.Builder()
            .setFeatureControl(new FeatureControlManager.Builder().build())
            .setKafkaConfigSchema(KafkaRaftServer.configSchema())
            .build();
        if (!question.get(2).isNull())
            manager.replay(new ConfigRecord().setResourceType(type.id()).setResourceName(resource.name())
                .setName(name).setValue(question.get(2).asText()));
        for (JsonNode operation : question.get(3)) {
            OpType op = OpType.valueOf(operation.get(0).asText());
            ControllerResult<ApiError> result = manager.incrementalAlterConfig(resource,
                Map.of(name, new SimpleEntry<>(op, operation.get(1).asText())), true, true);
            if (result.response().isFailure())
                return new String[] {null, result.response().message()};
            for (ApiMessageAndVersion record : result.records())
                if (record.message() instanceof ConfigRecord config)
                    manager.replay(config);
        }
        return new String[] {manager.getConfigs(resource).get(name), null};
    }
}
