package txnsim.peers;

import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Leaves out runs of a test that want groups of Kafka Streams' own (KIP-1071): txnsim has none. */
public final class WithoutStreamsGroups implements ExecutionCondition {

    /** As the tests call their argument. */
    private static final Pattern WANTED = Pattern.compile(
        "groupProtocol=streams|(useNewProtocol|streams\\w*ProtocolEnabled)=true");

    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
        return WANTED.matcher(context.getDisplayName()).find()
            ? ConditionEvaluationResult.disabled("it wants a group of Kafka Streams' own (KIP-1071)")
            : ConditionEvaluationResult.enabled("");
    }
}
