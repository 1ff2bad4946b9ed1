import java.util.Map;

/** What kafka-clients 3.x has beyond its successors: nothing. */
final class VersionChecks {
    static final boolean SPEAKS_TRANSACTIONS_V2 = false;

    private VersionChecks() {}

    static void addTo(Map<String, ClientCheck.Check> checks) {}
}
