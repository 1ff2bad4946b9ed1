import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Transactions through kafka-clients, as an application uses them, against any Kafka address.
 *
 * <p>{@code ClientCheck CHECK...}; no name means all, those with a secured listener only where the environment tells of
 * one. {@code TXNSIM_BOOTSTRAP}, {@code TXNSIM_TRANSACTION_VERSION} and {@code TXNSIM_RUN} say where, at which level and how
 * names begin. One line per check, then {@code N passed, M failed}; exit status 1 if any failed, 2 for wrong usage.
 */
public final class ClientCheck {
    /** One thing a client must be able to rely on. */
    interface Check {
        void run(Lab lab) throws Exception;
    }

    private ClientCheck() {}

    public static void main(String[] args) {
        Map<String, Check> all = new LinkedHashMap<>();
        CoreChecks.addTo(all);
        GroupChecks.addTo(all);
        AdminChecks.addTo(all);
        TransactionChecks.addTo(all);
        VersionChecks.addTo(all);
        SecurityChecks.addTo(all);
        List<String> names = args.length > 0 ? List.of(args) : usual(all);
        if (!all.keySet().containsAll(names)) {
            System.err.println("usage: ClientCheck CHECK..., of " + String.join(" ", all.keySet()));
            System.exit(2);
        }
        int failed = 0;
        int level = Integer.parseInt(environment("TXNSIM_TRANSACTION_VERSION"));
        Map<String, Object> connection = Map.of("bootstrap.servers", environment("TXNSIM_BOOTSTRAP"));
        try (Lab lab = new Lab(connection, level, environment("TXNSIM_RUN"))) {
            for (String name : names) {
                failed += passes(lab, name, all.get(name)) ? 0 : 1;
            }
        }
        System.out.println((names.size() - failed) + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    /** All but those whose listener is not there, and a part of another one. */
    private static List<String> usual(Map<String, Check> all) {
        return all.keySet().stream()
                .filter(SecurityChecks::canBe)
                .filter(name -> !name.equals("java-admin-without-fencing"))
                .toList();
    }

    private static boolean passes(Lab lab, String name, Check check) {
        try {
            check.run(lab);
            System.out.println("PASS " + name);
            return true;
        } catch (Exception | AssertionError failure) {
            failure.printStackTrace();
            System.out.println("FAIL " + name + ": " + failure.toString().replace('\n', ' '));
            return false;
        }
    }

    /** A variable that has to be there. */
    static String environment(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            System.err.println("usage: " + name + " has to be set");
            System.exit(2);
        }
        return value;
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
