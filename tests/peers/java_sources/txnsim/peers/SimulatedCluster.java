package txnsim.peers;

import static org.junit.jupiter.api.Assumptions.abort;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.FaultHandlerException;

/**
 * A cluster as Kafka's tests see it, whose brokers are txnsim's.
 *
 * <p>What goes over the wire is answered. Objects inside a broker can't be had, but for what
 * {@link BrokerFromOutside} makes of answers: a test that asks for them is aborted, and says so. So is one that wants what txnsim does not offer.
 */
public final class SimulatedCluster implements ClusterInstance {

    private static final long WAIT_MS = 30_000;
    private static final long POLL_MS = 50;

    private final ClusterConfig config;
    private final Type type;
    private SimulatedBrokers brokers;
    private boolean stopped;
    private Admin admin;
    private final Map<Integer, KafkaBroker> inside = new TreeMap<>();

    public SimulatedCluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
    }

    // Life

    @Override
    public void start() {
        if (brokers != null) {
            return;
        }
        if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
            abort("asks for a listener of " + config.brokerSecurityProtocol());
        }
        if (config.metadataVersion().isLessThan(MetadataVersion.latestProduction())) {
            abort("asks for metadata.version " + config.metadataVersion());
        }
        if (!config.perServerOverrideProperties().isEmpty()) {
            abort("asks for settings per broker " + config.perServerOverrideProperties());
        }
        config.features().forEach((feature, level) -> {
            if (feature != Feature.TRANSACTION_VERSION && level != feature.latestProduction()) {
                abort("asks for " + feature.featureName() + " " + level);
            }
        });
        Short level = config.features().get(Feature.TRANSACTION_VERSION);
        short wanted = level == null ? Feature.TRANSACTION_VERSION.latestProduction() : level;
        brokers = new SimulatedBrokers(config.numBrokers(), wanted, config.serverProperties());
    }

    @Override
    public boolean started() {
        return brokers != null;
    }

    @Override
    public void stop() {
        if (!stopped && brokers != null) {
            if (admin != null) {
                admin.close();
            }
            brokers.close();
        }
        stopped = true;
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public void shutdownBroker(int brokerId) {
        brokers.control(brokerId, "stop");
    }

    @Override
    public void startBroker(int brokerId) {
        brokers.control(brokerId, "start");
    }

    // Queries

    @Override
    public Type type() {
        return type;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String bootstrapServers() {
        return brokers.bootstrap();
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public String clusterId() {
        try (Admin admin = admin()) {
            return admin.describeCluster().clusterId().get();
        } catch (ExecutionException | InterruptedException failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public Set<Integer> brokerIds() {
        try (Admin admin = admin()) {
            Set<Integer> ids = new TreeSet<>();
            for (Node node : admin.describeCluster().nodes().get()) {
                ids.add(node.id());
            }
            return ids;
        } catch (ExecutionException | InterruptedException failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        String protocols = config.serverProperties()
            .getOrDefault("group.coordinator.rebalance.protocols", "classic,consumer");
        return protocols.contains("consumer")
            ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
            : Set.of(GroupProtocol.CLASSIC);
    }

    // Waiting

    @Override
    public void waitForReadyBrokers() {
        // They were ready when start() returned.
    }

    @Override
    public void createTopic(String topic, int partitions, short replicas, Map<String, String> configs)
            throws InterruptedException {
        create(new NewTopic(topic, partitions, replicas).configs(configs), partitions);
    }

    @Override
    public void createTopicWithAssignment(String topic, Map<Integer, List<Integer>> replicas)
            throws InterruptedException {
        create(new NewTopic(topic, replicas), replicas.size());
    }

    private void create(NewTopic topic, int partitions) throws InterruptedException {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(topic)).all().get();
        } catch (ExecutionException failure) {
            throw new IllegalStateException(failure.getCause());
        }
        waitTopicCreation(topic.name(), partitions);
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        try (Admin admin = admin()) {
            await(topic + " has not come to be", () -> {
                var described = admin.describeTopics(List.of(topic)).topicNameValues();
                var found = described.get(topic).get().partitions();
                return found.size() == partitions
                    && found.stream().allMatch(each -> each.leader() != null);
            });
        }
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        try (Admin admin = admin()) {
            await(topic + " is still there", () -> !admin.listTopics().names().get().contains(topic));
        }
    }

    private static void await(String otherwise, Callable<Boolean> condition)
            throws InterruptedException {
        long deadlineMs = System.currentTimeMillis() + WAIT_MS;
        while (!holds(condition)) {
            if (System.currentTimeMillis() > deadlineMs) {
                throw new AssertionError(otherwise);
            }
            TimeUnit.MILLISECONDS.sleep(POLL_MS);
        }
    }

    private static boolean holds(Callable<Boolean> condition) {
        try {
            return condition.call();
        } catch (ExecutionException unknownYet) {
            return false;
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public void ensureConsistentMetadata() {
        // What one broker has told is what the others tell, too, as soon as no link is held.
    }

    // What is inside

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        if (inside.isEmpty()) {
            admin = brokers.admin();
            for (Integer id : brokerIds()) {
                inside.put(id, BrokerFromOutside.make(
                    id, clientListener(), config.serverProperties(), brokers, admin));
            }
        }
        return inside;
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return Stream.of(bootstrapServers().split(","))
            .map(address -> Integer.valueOf(address.substring(address.indexOf(':') + 1)))
            .toList();
    }

    /** None to wait for. */
    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of();
    }

    @Override
    public Set<Integer> controllerIds() {
        return inside("a controller");
    }

    @Override
    public ListenerName controllerListenerName() {
        return inside("a controller");
    }

    @Override
    public String bootstrapControllers() {
        return abort("asks the controllers themselves, past the brokers");
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    private static <T> T inside(String what) {
        return abort("reaches for objects inside " + what + ", past the wire");
    }
}
