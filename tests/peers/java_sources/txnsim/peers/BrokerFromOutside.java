package txnsim.peers;

import static org.junit.jupiter.api.Assumptions.abort;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyBoolean;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.stubbing.Answer;
import scala.Option;

/**
 * An object in the place of a broker, for tests that look into one.
 *
 * <p>Where the same can be asked over the wire it is: whether the broker leads a partition, the start
 * of its log, the producers it knows. It is stopped and started through the control port. All else
 * aborts the test.
 */
public final class BrokerFromOutside {

    private BrokerFromOutside() { }

    /**
     * One of them.
     *
     * @param id its id
     * @param listener the listener's name
     * @param settings those that the test wants
     */
    public static BrokerServer make(
            int id, ListenerName listener, Map<String, String> settings,
            SimulatedBrokers cluster, Admin admin) {
        String address = cluster.bootstrap().split(",")[id];
        int port = Integer.parseInt(address.substring(address.indexOf(':') + 1));
        KafkaConfig config = config(id, listener.value(), address, settings);
        SocketServer sockets = unopened(SocketServer.class);
        doAnswer(call -> port).when(sockets).boundPort(any());
        GroupCoordinator groups = unopened(GroupCoordinator.class);
        doAnswer(call -> offsetsConfigs()).when(groups).groupMetadataTopicConfigs();
        KRaftMetadataCache metadata = unopened(KRaftMetadataCache.class);
        doAnswer(call -> partitions(call.getArgument(0), admin).map(List::size))
            .when(metadata).numPartitions(any());
        doAnswer(call -> partitions(call.getArgument(0), admin)
            .map(found -> leader(found.get(call.<Integer>getArgument(1)))))
            .when(metadata).getLeaderAndIsr(any(), anyInt());
        ReplicaManager replicas = unopened(ReplicaManager.class);
        doAnswer(call -> Option.apply(log(id, call.getArgument(0), admin)))
            .when(replicas).localLog(any());
        doAnswer(call -> Option.apply(partition(id, call.getArgument(0), admin)))
            .when(replicas).onlinePartition(any());
        LogManager logs = unopened(LogManager.class);
        doAnswer(call -> false).when(logs).getLog$default$2();
        doAnswer(call -> Option.apply(log(id, call.getArgument(0), admin)))
            .when(logs).getLog(any(), anyBoolean());
        BrokerServer broker = unopened(BrokerServer.class);
        doAnswer(call -> config).when(broker).config();
        doAnswer(call -> port).when(broker).boundPort(any());
        doAnswer(call -> replicas).when(broker).replicaManager();
        doAnswer(call -> logs).when(broker).logManager();
        doAnswer(call -> sockets).when(broker).socketServer();
        doAnswer(call -> groups).when(broker).groupCoordinator();
        doAnswer(call -> metadata).when(broker).metadataCache();
        AtomicReference<BrokerState> state = new AtomicReference<>(BrokerState.RUNNING);
        doAnswer(call -> state.get()).when(broker).brokerState();
        doAnswer(call -> {
            cluster.control(id, "stop");
            state.set(BrokerState.NOT_RUNNING);
            return null;
        }).when(broker).shutdown();
        doAnswer(call -> null).when(broker).awaitShutdown(); // it was down when shutdown() returned
        doAnswer(call -> {
            cluster.control(id, "start");
            state.set(BrokerState.RUNNING);
            return null;
        }).when(broker).startup();
        return broker;
    }

    private static KafkaConfig config(
            int id, String listener, String address, Map<String, String> settings) {
        Properties properties = new Properties();
        properties.putAll(settings);
        properties.putAll(Map.of(
            "node.id", String.valueOf(id),
            "process.roles", "broker",
            "controller.quorum.voters", "3000@127.0.0.1:1",
            "controller.listener.names", "CONTROLLER",
            "listeners", listener + "://" + address,
            "listener.security.protocol.map", listener + ":PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name", listener));
        return KafkaConfig.fromProps(properties);
    }

    private static Properties offsetsConfigs() {
        Properties configs = new Properties();
        configs.put("cleanup.policy", "compact");
        configs.put("compression.type", "producer");
        return configs;
    }

    private static Optional<List<TopicPartitionInfo>> partitions(String topic, Admin admin)
            throws InterruptedException {
        try {
            var described = admin.describeTopics(List.of(topic)).topicNameValues().get(topic);
            return Optional.of(described.get().partitions());
        } catch (ExecutionException unknown) {
            return Optional.empty();
        }
    }

    private static LeaderAndIsr leader(TopicPartitionInfo partition) {
        return new LeaderAndIsr(
            partition.leader().id(), partition.isr().stream().map(Node::id).toList());
    }

    private static Partition partition(int id, TopicPartition name, Admin admin) {
        Partition partition = unopened(Partition.class);
        doAnswer(call -> Option.apply(leads(id, name, admin) ? log(id, name, admin) : null))
            .when(partition).leaderLogIfLocal();
        return partition;
    }

    private static boolean leads(int id, TopicPartition name, Admin admin) throws Exception {
        var topic = admin.describeTopics(List.of(name.topic())).topicNameValues().get(name.topic());
        TopicPartitionInfo partition = topic.get().partitions().get(name.partition());
        return partition.leader() != null && partition.leader().id() == id;
    }

    private static UnifiedLog log(int id, TopicPartition name, Admin admin) {
        UnifiedLog log = unopened(UnifiedLog.class);
        doAnswer(call -> admin.listOffsets(Map.of(name, OffsetSpec.earliest()))
            .partitionResult(name).get().offset()).when(log).logStartOffset();
        ProducerStateManager producers = unopened(ProducerStateManager.class);
        doAnswer(call -> producers(id, name, admin)).when(producers).activeProducers();
        doAnswer(call -> producers).when(log).producerStateManager();
        return log;
    }

    private static Map<Long, ProducerStateEntry> producers(int id, TopicPartition name, Admin admin)
            throws Exception {
        var options = new DescribeProducersOptions().brokerId(id);
        var found = admin.describeProducers(List.of(name), options).partitionResult(name).get();
        Map<Long, ProducerStateEntry> entries = new HashMap<>();
        for (ProducerState each : found.activeProducers()) {
            entries.put(each.producerId(), new ProducerStateEntry(
                each.producerId(), (short) each.producerEpoch(),
                each.coordinatorEpoch().orElse(-1), each.lastTimestamp(), OptionalLong.empty()));
        }
        return entries;
    }

    private static <T> T unopened(Class<T> type) {
        Answer<Object> refuse = call ->
            abort("reaches for " + type.getSimpleName() + "." + call.getMethod().getName()
                + " inside a broker, past the wire");
        return mock(type, refuse);
    }
}
