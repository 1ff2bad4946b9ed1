package txnsim.peers;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestDescriptor;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs tests of these classes and prints a line for each method:
 * {@code @ RESULT Class.method what it said}, parted by tabs.
 *
 * <p>Arguments: classes, parted by commas, then names of methods as {@code Class.method}; all of
 * them if there are none. A method that runs several times has passed if each of its runs did, and
 * is skipped if none was made.
 */
public final class RunTests implements TestExecutionListener {

    private static final String PASSED = "passed";
    private static final String FAILED = "failed";
    private static final String SKIPPED = "skipped";
    private static final int TOLD_MAX = 1200;

    private record Outcome(String result, String told) { }

    private final Map<String, Outcome> open = new HashMap<>();

    private RunTests() { }

    public static void main(String[] arguments) {
        Set<String> wanted = Arrays.stream(arguments).skip(1).collect(Collectors.toSet());
        PostDiscoveryFilter chosen = test -> FilterResult.includedIf(
            wanted.isEmpty() || name(test).map(wanted::contains).orElse(true));
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(Arrays.stream(arguments[0].split(",")).map(each -> selectClass(each)).toList())
            .filters(chosen)
            .configurationParameter("junit.jupiter.execution.timeout.default", "600 s")
            .build();
        LauncherFactory.create().execute(request, new RunTests());
        System.out.flush();
        System.exit(0); // whatever threads a test has left behind
    }

    private static Optional<String> name(TestDescriptor test) {
        return test.getSource().flatMap(RunTests::name);
    }

    private static Optional<String> name(TestSource source) {
        return source instanceof MethodSource method
            ? Optional.of(simple(method.getClassName()) + "." + method.getMethodName())
            : Optional.empty();
    }

    private static String simple(String className) {
        return className.substring(className.lastIndexOf('.') + 1);
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        note(test, new Outcome(SKIPPED, reason));
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean whole = test.isContainer();
        switch (result.getStatus()) {
            case SUCCESSFUL -> note(test, whole ? null : new Outcome(PASSED, ""));
            case ABORTED -> note(test, new Outcome(SKIPPED, told(result)));
            case FAILED -> note(test, new Outcome(FAILED, told(result)));
        }
    }

    private void note(TestIdentifier test, Outcome outcome) {
        Optional<String> name = test.getSource().flatMap(RunTests::name);
        if (name.isEmpty()) {
            test.getSource().filter(ClassSource.class::isInstance).ifPresent(source -> {
                if (outcome != null) {
                    tell(simple(((ClassSource) source).getClassName()), outcome);
                }
            });
            return;
        }
        if (outcome != null) {
            open.merge(name.get(), outcome, RunTests::worse);
        }
        boolean invocation = test.getUniqueId().contains("-invocation:");
        if (!invocation && open.containsKey(name.get())) {
            tell(name.get(), open.remove(name.get()));
        }
    }

    private static Outcome worse(Outcome one, Outcome other) {
        if (one.result.equals(FAILED) || other.result.equals(SKIPPED)) {
            return one;
        }
        return other;
    }

    private static String told(TestExecutionResult result) {
        return result.getThrowable().map(RunTests::withCause).orElse("");
    }

    private static String withCause(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause == failure ? failure.toString() : failure + ", as " + cause;
    }

    private static void tell(String name, Outcome outcome) {
        String line = outcome.told.replaceAll("\\s+", " ");
        String shown = line.length() > TOLD_MAX ? line.substring(0, TOLD_MAX) : line;
        System.out.println("@\t" + outcome.result + "\t" + name + "\t" + shown);
        System.out.flush();
    }
}
