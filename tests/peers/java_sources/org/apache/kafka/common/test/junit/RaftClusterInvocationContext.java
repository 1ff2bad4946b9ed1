package org.apache.kafka.common.test.junit;

import java.util.List;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import txnsim.peers.SimulatedCluster;

/**
 * Gives a cluster test brokers of txnsim.
 *
 * <p>It stands in front of the class of the same name in Kafka's test kit, which gives it brokers
 * inside the JVM. Whether controllers share processes with brokers is all one to us: where a test
 * would run both ways, it runs once.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {

    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " [" + index + "] " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        Type type = combined ? Type.CO_KRAFT : Type.KRAFT;
        SimulatedCluster cluster = new SimulatedCluster(config, type);
        if (combined && config.clusterTypes().contains(Type.KRAFT)) {
            return List.of(
                (ExecutionCondition) context ->
                    ConditionEvaluationResult.disabled("the same brokers as for Type.KRAFT"),
                new ClusterInstanceParameterResolver(cluster)); // a constructor comes first
        }
        return List.of(
            (BeforeEachCallback) context -> {
                if (config.isAutoStart()) {
                    cluster.start();
                }
            },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }
}
