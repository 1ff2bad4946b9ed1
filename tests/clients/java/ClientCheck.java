import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Transactions through kafka-clients, as an application uses them, against any Kafka address.
 *
 * <p>{@code ClientCheck BOOTSTRAP TRANSACTION_VERSION [--abort-interval-ms MS] [--only NAME]}: one line per check, then
 * {@code N passed, M failed}; exit status 1 if any failed.
 */
public final class ClientCheck {
    /** One thing a client must be able to rely on. */
    interface Check {
        void run(Lab lab) throws Exception;
    }

    private ClientCheck() {}

    public static void main(String[] args) {
        List<String> words = new ArrayList<>(List.of(args));
        Duration abortInterval = Duration.ofMillis(Long.parseLong(option(words, "--abort-interval-ms", "10000")));
        String only = option(words, "--only", "");
        if (words.size() != 2) {
            System.err.println("usage: ClientCheck BOOTSTRAP TRANSACTION_VERSION [--abort-interval-ms MS] [--only NAME]");
            System.exit(2);
        }
        Map<String, Check> checks = new LinkedHashMap<>();
        TransactionChecks.addTo(checks);
        AdminChecks.addTo(checks);
        checks.keySet().removeIf(name -> !only.isEmpty() && !name.equals(only));
        int failed = 0;
        try (Lab lab = new Lab(words.get(0), Integer.parseInt(words.get(1)), abortInterval)) {
            for (Map.Entry<String, Check> check : checks.entrySet()) {
                failed += passes(lab, check.getKey(), check.getValue()) ? 0 : 1;
            }
        }
        System.out.println((checks.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed == 0 && !checks.isEmpty() ? 0 : 1);
    }

    private static boolean passes(Lab lab, String name, Check check) {
        try {
            check.run(lab);
            System.out.println("PASS " + name);
            return true;
        } catch (Exception | AssertionError failure) {
            System.out.println("FAIL " + name + ": " + failure.toString().replace('\n', ' '));
            failure.printStackTrace();
            return false;
        }
    }

    /** Take {@code name VALUE} out of the words. */
    static String option(List<String> words, String name, String otherwise) {
        int at = words.indexOf(name);
        if (at < 0 || at + 1 >= words.size()) {
            return otherwise;
        }
        words.remove(at);
        return words.remove(at);
    }
}
