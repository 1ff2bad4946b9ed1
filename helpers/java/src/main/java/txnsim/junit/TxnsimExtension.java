package txnsim.junit;

import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives tests a {@link TxnsimCluster} as a parameter: one for each class, fresh for each test.
 *
 * <p>A test whose faults never struck has tested nothing and fails. What to start is said by {@link Txnsim}, which brings this
 * extension along; {@code @ExtendWith(TxnsimExtension.class)} alone starts what it starts without anything.
 */
public final class TxnsimExtension
        implements ParameterResolver, BeforeAllCallback, BeforeEachCallback, AfterEachCallback, AfterAllCallback {
    private static final ExtensionContext.Namespace SPACE = ExtensionContext.Namespace.create(TxnsimExtension.class);

    /** Closed by JUnit when the tests of the class are over. */
    private static final class Running implements ExtensionContext.Store.CloseableResource {
        private final TxnsimCluster cluster;

        /** Ctrl-C in a test that hangs: it tells what happened, as one that has failed. */
        private final Thread interrupted;

        Running(TxnsimCluster cluster) {
            this.cluster = cluster;
            interrupted = new Thread(() -> System.err.println("interrupted\n" + cluster.report()));
            Runtime.getRuntime().addShutdownHook(interrupted);
        }

        @Override
        public void close() {
            Runtime.getRuntime().removeShutdownHook(interrupted);
            cluster.close();
        }
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        String property = property(context);
        if (!property.isEmpty()) {
            System.setProperty(property, cluster(context).bootstrap());
        }
    }

    @Override
    public void afterAll(ExtensionContext context) {
        String property = property(context);
        if (!property.isEmpty()) {
            System.clearProperty(property);
        }
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        Running running = context.getStore(SPACE).get(key(context), Running.class);
        Txnsim annotation = annotation(context);
        if (running != null && (annotation == null || annotation.resets())) {
            running.cluster.reset();
        }
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Running running = context.getStore(SPACE).get(key(context), Running.class);
        if (running == null) {
            return;
        }
        if (context.getExecutionException().isPresent()) {
            String report = running.cluster.report();
            context.publishReportEntry("txnsim", report);
            System.err.println(context.getDisplayName() + " has failed\n" + report);
            running.cluster.faults().forget(); // it has failed for a better reason
        } else {
            running.cluster.faults().verify();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == TxnsimCluster.class;
    }

    @Override
    public TxnsimCluster resolveParameter(ParameterContext parameter, ExtensionContext context) {
        ExtensionContext holder = context.getTestMethod().isPresent() ? context.getParent().orElse(context) : context;
        return cluster(holder);
    }

    private static TxnsimCluster cluster(ExtensionContext ofClass) {
        return ofClass.getStore(SPACE)
                .getOrComputeIfAbsent(key(ofClass), ignored -> new Running(start(ofClass)), Running.class)
                .cluster;
    }

    private static String property(ExtensionContext context) {
        Txnsim annotation = annotation(context);
        return annotation == null ? "" : annotation.bootstrapServersProperty();
    }

    private static Txnsim annotation(ExtensionContext context) {
        return context.getRequiredTestClass().getAnnotation(Txnsim.class);
    }

    private static String key(ExtensionContext context) {
        return context.getRequiredTestClass().getName();
    }

    private static TxnsimCluster start(ExtensionContext context) {
        TxnsimCluster.Options options = new TxnsimCluster.Options();
        Txnsim annotation = annotation(context);
        if (annotation != null) {
            options.brokers(annotation.brokers()).transactionVersion(annotation.transactionVersion());
            for (String topic : annotation.topics()) {
                options.topic(topic);
            }
            Map<String, Object> settings = new HashMap<>();
            for (String setting : annotation.settings()) {
                String[] nameAndValue = setting.split("=", 2);
                if (nameAndValue.length < 2) {
                    throw new TxnsimException(0, "@Txnsim(settings = \"" + setting + "\"): expected NAME=VALUE");
                }
                settings.put(nameAndValue[0], Json.scalar(nameAndValue[1]));
            }
            options.settings(settings);
            if (!annotation.asVersion().isEmpty()) {
                options.asVersion(annotation.asVersion());
            }
        }
        return TxnsimCluster.start(options);
    }
}
