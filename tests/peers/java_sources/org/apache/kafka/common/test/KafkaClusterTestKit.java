package org.apache.kafka.common.test;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import kafka.server.BrokerServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.common.Feature;
import txnsim.peers.BrokerFromOutside;
import txnsim.peers.SimulatedBrokers;

import static org.junit.jupiter.api.Assumptions.abort;

/**
 * The cluster below the embedded ones of Kafka Streams, Connect and MirrorMaker, made of txnsim's brokers.
 *
 * <p>It stands in front of the class of the same name in Kafka's test kit, which starts brokers inside
 * the JVM, and offers what those three ask of it.
 */
public class KafkaClusterTestKit implements AutoCloseable {

    /** Takes down what the cluster is to be. */
    public static class Builder {

        private final TestKitNodes nodes;
        private final Map<String, String> settings = new HashMap<>();

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            settings.put(key, value.toString());
            return this;
        }

        public KafkaClusterTestKit build() {
            return new KafkaClusterTestKit(nodes, settings);
        }
    }

    private final TestKitNodes nodes;
    private final Map<String, String> settings;
    private final MockFaultHandler faults = new MockFaultHandler("none comes from outside");
    private final Map<Integer, BrokerServer> brokers = new TreeMap<>();
    private SimulatedBrokers cluster;
    private Admin admin;

    private KafkaClusterTestKit(TestKitNodes nodes, Map<String, String> settings) {
        this.nodes = nodes;
        this.settings = settings;
        nodes.brokerNodes().values().forEach(node -> settings.putAll(node.propertyOverrides()));
    }

    /** Nothing to format: brokers keep all in memory. */
    public void format() { }

    public void startup() {
        if (nodes.brokerListenerProtocol() != SecurityProtocol.PLAINTEXT) {
            abort("asks for a listener of " + nodes.brokerListenerProtocol());
        }
        if (settings.containsKey("listener.security.protocol.map")) { // the kit itself names listeners
            settings.putIfAbsent("listeners", nodes.brokerListenerName().value() + "://127.0.0.1:0");
            settings.put("controller.listener.names", nodes.controllerListenerName().value());
        }
        int count = nodes.brokerNodes().size();
        cluster = new SimulatedBrokers(
            count, Feature.TRANSACTION_VERSION.latestProduction(), settings);
        admin = cluster.admin();
        for (int id = 0; id < count; id++) {
            brokers.put(id, BrokerFromOutside.make(
                id, nodes.brokerListenerName(), settings, cluster, admin));
        }
    }

    /** They were ready when {@link #startup} returned. */
    public void waitForReadyBrokers() { }

    public String bootstrapServers() {
        return cluster.bootstrap();
    }

    public Map<Integer, BrokerServer> brokers() {
        return brokers;
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return faults;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return faults;
    }

    @Override
    public void close() {
        if (cluster != null) {
            admin.close();
            cluster.close();
        }
    }
}
