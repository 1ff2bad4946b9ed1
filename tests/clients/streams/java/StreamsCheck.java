import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What an application of Kafka Streams with {@code exactly_once_v2} relies on, against any Kafka address.
 *
 * <p>{@code StreamsCheck CHECK...}; the address is in the environment: TXNSIM_BOOTSTRAP, TXNSIM_RUN. One line per check,
 * then {@code N passed, M failed}; exit status 1 if any failed.
 */
public final class StreamsCheck {
    /** One thing an application must be able to rely on. */
    interface Check {
        void run(StreamsLab lab) throws Exception;
    }

    private StreamsCheck() {}

    public static void main(String[] args) throws Exception {
        Map<String, Check> all = new LinkedHashMap<>();
        TransactionChecks.addTo(all);
        StateChecks.addTo(all);
        List<String> wanted = args.length == 0 ? new ArrayList<>(all.keySet()) : List.of(args);
        String bootstrap = System.getenv("TXNSIM_BOOTSTRAP");
        String run = System.getenv("TXNSIM_RUN");
        if (bootstrap == null || run == null || !all.keySet().containsAll(wanted)) {
            System.err.println("usage: TXNSIM_BOOTSTRAP=... TXNSIM_RUN=... StreamsCheck [CHECK...]; checks: " + all.keySet());
            System.exit(2);
        }
        int failed = 0;
        for (String name : wanted) {
            failed += passes(name, all.get(name), bootstrap, run) ? 0 : 1;
        }
        System.out.println((wanted.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    private static boolean passes(String name, Check check, String bootstrap, String run) {
        try (StreamsLab lab = new StreamsLab(bootstrap, run + "-" + name)) {
            check.run(lab);
            System.out.println("PASS " + name);
            return true;
        } catch (Exception | AssertionError failure) {
            failure.printStackTrace();
            System.out.println("FAIL " + name + ": " + failure.toString().replace('\n', ' '));
            return false;
        }
    }
}
