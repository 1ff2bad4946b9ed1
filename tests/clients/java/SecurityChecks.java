import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SaslAuthenticationException;

/** The transactional core through listeners with TLS: with a password, a token, a certificate. */
final class SecurityChecks {
    /** A way to log in: who, and how. */
    private record Login(String mechanism, String user, String module) {
        boolean hasPassword() {
            return !mechanism.equals("OAUTHBEARER");
        }

        String jaas(String password) {
            String package_ = "org.apache.kafka.common.security.";
            return hasPassword()
                    ? package_ + module + " required username=\"" + user + "\" password=\"" + password + "\";"
                    : package_ + module + " required unsecuredLoginStringClaim_sub=\"" + user + "\";";
        }
    }

    private static final List<Login> LOGINS =
            List.of(
                    new Login("SCRAM-SHA-256", "scram-user", "scram.ScramLoginModule"),
                    new Login("SCRAM-SHA-512", "scram-user", "scram.ScramLoginModule"),
                    new Login("PLAIN", "plain-user", "plain.PlainLoginModule"),
                    new Login("OAUTHBEARER", "oauth-user", "oauthbearer.OAuthBearerLoginModule"));
    private static final Login ADMIN = new Login("SCRAM-SHA-256", "admin", "scram.ScramLoginModule");
    private static final Map<String, String> LISTENERS =
            Map.of("sasl", "TXNSIM_SASL_BOOTSTRAP", "tls", "TXNSIM_TLS_BOOTSTRAP");

    private SecurityChecks() {}

    static void addTo(Map<String, ClientCheck.Check> checks) {
        checks.put("sasl", lab -> sasl());
        checks.put("tls", lab -> tls());
    }

    /** Whether the environment has the listener that this check needs, if any. */
    static boolean canBe(String check) {
        return !LISTENERS.containsKey(check) || System.getenv(LISTENERS.get(check)) != null;
    }

    private static void sasl() throws Exception {
        for (Login login : LOGINS) {
            Map<String, Object> connection = saslConnection(login, login.user() + "-secret");
            transact("sasl-" + login.mechanism().toLowerCase(), connection);
            if (login.hasPassword()) {
                expectRefused(saslConnection(login, "wrong"), login.mechanism());
            }
        }
    }

    private static void tls() throws Exception {
        Map<String, Object> connection = tlsConnection("TXNSIM_TLS_BOOTSTRAP", "SSL");
        connection.put("ssl.keystore.type", "PEM");
        connection.put("ssl.keystore.location", file("tls-user.keystore.pem"));
        transact("tls", connection);
    }

    private static Map<String, Object> saslConnection(Login login, String password) {
        Map<String, Object> connection = tlsConnection("TXNSIM_SASL_BOOTSTRAP", "SASL_SSL");
        connection.put("sasl.mechanism", login.mechanism());
        connection.put("sasl.jaas.config", login.jaas(password));
        return connection;
    }

    private static Map<String, Object> tlsConnection(String bootstrap, String protocol) {
        Map<String, Object> connection = new HashMap<>();
        connection.put("bootstrap.servers", ClientCheck.environment(bootstrap));
        connection.put("security.protocol", protocol);
        connection.put("ssl.truststore.type", "PEM");
        connection.put("ssl.truststore.location", file("ca.pem"));
        return connection;
    }

    private static String file(String name) {
        return ClientCheck.environment("TXNSIM_SECURITY_DIR") + "/" + name;
    }

    /** Commit, abort and read as this user; the topic is made by the administrator. */
    private static void transact(String stem, Map<String, Object> connection) throws Exception {
        String run = ClientCheck.environment("TXNSIM_RUN");
        TopicPartition at;
        try (Lab admin = new Lab(saslConnection(ADMIN, "admin-secret"), 2, run)) {
            at = admin.newTopic(stem);
        }
        try (Lab lab = new Lab(connection, 2, run);
                KafkaProducer<String, String> producer = lab.transactional(lab.named(stem))) {
            producer.beginTransaction();
            Lab.send(producer, at, "aborted");
            producer.abortTransaction();
            producer.beginTransaction();
            Lab.send(producer, at, "committed");
            Lab.expect("read_committed before", List.of(), lab.committed(at));
            producer.commitTransaction();
            Lab.await("the commit is visible", () -> lab.committed(at).equals(List.of("committed")));
            Lab.expect("read_uncommitted", List.of("aborted", "committed"), lab.uncommitted(at));
        }
    }

    private static void expectRefused(Map<String, Object> connection, String mechanism) {
        Map<String, Object> config = Map.of("transactional.id", ClientCheck.environment("TXNSIM_RUN") + "-refused");
        try (Lab lab = new Lab(connection, 2, "");
                KafkaProducer<String, String> producer = lab.producer(config)) {
            Lab.expectThrown(mechanism, SaslAuthenticationException.class, producer::initTransactions);
        }
    }
}
