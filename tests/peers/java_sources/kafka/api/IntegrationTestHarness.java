package kafka.api;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import kafka.server.KafkaBroker;
import kafka.utils.TestInfoUtils;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Utils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import scala.Function0;
import scala.collection.mutable.Buffer;
import scala.jdk.javaapi.CollectionConverters;
import txnsim.peers.BrokerFromOutside;
import txnsim.peers.SimulatedBrokers;

/**
 * What the tests of {@code kafka.api} inherit, with brokers of txnsim.
 *
 * <p>It stands in front of the class of the same name, which starts brokers inside the JVM, and offers
 * what the tests of transactions use of it.
 */
public abstract class IntegrationTestHarness {

    private static final Map<String, String> SETTINGS = Map.of(
        "group.initial.rebalance.delay.ms", "0",
        "offsets.topic.replication.factor", "1");

    private TestInfo testInfo;
    private SimulatedBrokers cluster;
    private Admin admin;
    private final List<KafkaBroker> brokers = new ArrayList<>();
    private final List<AutoCloseable> clients = new ArrayList<>();
    private final Set<Integer> dead = new TreeSet<>();

    // Parameters

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return Stream.of(Arguments.of("classic"), Arguments.of("consumer"));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return Stream.of(Arguments.of("classic"));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return Stream.of(Arguments.of("consumer"));
    }

    public abstract int brokerCount();

    // Life

    @BeforeEach
    public void setUp(TestInfo info) {
        testInfo = info;
        Map<String, String> settings = new HashMap<>(SETTINGS);
        wanted().forEach((name, value) -> settings.put(name.toString(), value.toString()));
        boolean newest = TestInfoUtils.isTransactionV2Enabled(info);
        cluster = new SimulatedBrokers(brokerCount(), (short) (newest ? 2 : 1), settings);
        admin = cluster.admin();
        for (int id = 0; id < brokerCount(); id++) {
            brokers.add(BrokerFromOutside.make(
                id, bootstrapServers$default$1(), settings, cluster, admin));
        }
    }

    /** What the test calls the settings that it wants. */
    private Properties wanted() {
        try {
            return (Properties) getClass().getMethod("overridingProps").invoke(this);
        } catch (ReflectiveOperationException failure) {
            throw new IllegalStateException(failure);
        }
    }

    @AfterEach
    public void tearDown() {
        if (cluster != null) {
            clients.forEach(client -> Utils.closeQuietly(client, "client"));
            admin.close();
            cluster.close();
        }
    }

    public void killBroker(int index) {
        cluster.control(index, "stop");
        dead.add(index);
    }

    public void restartDeadBrokers(boolean reconfigure) {
        dead.forEach(index -> cluster.control(index, "start"));
        dead.clear();
    }

    public boolean restartDeadBrokers$default$1() {
        return false;
    }

    // Queries

    public Buffer<KafkaBroker> brokers() {
        return CollectionConverters.asScala(brokers);
    }

    public String bootstrapServers(ListenerName listener) {
        return cluster.bootstrap();
    }

    public ListenerName bootstrapServers$default$1() {
        return ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return TestInfoUtils.maybeGroupProtocolSpecified(testInfo).get();
    }

    // Topics and clients

    @SuppressWarnings("unchecked")
    public scala.collection.immutable.Map<Object, Object> createTopic(
            String name, int partitions, int replicas, Properties configs, ListenerName listener,
            Properties adminConfigs) {
        Map<String, String> wanted = new HashMap<>();
        configs.forEach((key, value) -> wanted.put(key.toString(), value.toString()));
        NewTopic topic = new NewTopic(name, partitions, (short) replicas).configs(wanted);
        Map<Object, Object> leaders = new HashMap<>();
        try {
            admin.createTopics(List.of(topic)).all().get();
            var described = admin.describeTopics(List.of(name)).topicNameValues().get(name).get();
            for (TopicPartitionInfo partition : described.partitions()) {
                leaders.put(partition.partition(), partition.leader().id());
            }
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
        return scala.collection.immutable.Map.from(CollectionConverters.asScala(leaders));
    }

    public ListenerName createTopic$default$5() {
        return bootstrapServers$default$1();
    }

    public Properties createTopic$default$6() {
        return new Properties();
    }

    public Admin createAdminClient(ListenerName listener, Properties configs) {
        Admin client = cluster.admin();
        clients.add(client);
        return client;
    }

    public ListenerName createAdminClient$default$1() {
        return bootstrapServers$default$1();
    }

    public Properties createAdminClient$default$2() {
        return new Properties();
    }

    public <K, V> KafkaProducer<K, V> createProducer(
            Serializer<K> keys, Serializer<V> values, Properties configs) {
        Properties all = clientConfigs(configs);
        all.putIfAbsent(ProducerConfig.ACKS_CONFIG, "all");
        KafkaProducer<K, V> producer = new KafkaProducer<>(all, keys, values);
        clients.add(producer);
        return producer;
    }

    public <K, V> ByteArraySerializer createProducer$default$1() {
        return new ByteArraySerializer();
    }

    public <K, V> ByteArraySerializer createProducer$default$2() {
        return new ByteArraySerializer();
    }

    public <K, V> Consumer<K, V> createConsumer(
            Deserializer<K> keys, Deserializer<V> values, Properties configs,
            scala.collection.immutable.List<String> without) {
        Properties all = clientConfigs(configs);
        all.putIfAbsent(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        all.putIfAbsent(ConsumerConfig.GROUP_ID_CONFIG, "group");
        all.putIfAbsent(
            ConsumerConfig.GROUP_PROTOCOL_CONFIG, groupProtocolFromTestParameters().name());
        CollectionConverters.asJava(without).forEach(all::remove);
        Consumer<K, V> consumer = new KafkaConsumer<>(all, keys, values);
        clients.add(consumer);
        return consumer;
    }

    public <K, V> ByteArrayDeserializer createConsumer$default$1() {
        return new ByteArrayDeserializer();
    }

    public <K, V> ByteArrayDeserializer createConsumer$default$2() {
        return new ByteArrayDeserializer();
    }

    @SuppressWarnings("unchecked")
    public <K, V> scala.collection.immutable.List<String> createConsumer$default$4() {
        return (scala.collection.immutable.List<String>) (Object) scala.collection.immutable.Nil$.MODULE$;
    }

    private Properties clientConfigs(Properties configs) {
        Properties all = new Properties();
        all.putAll(configs);
        all.putIfAbsent(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, cluster.bootstrap());
        return all;
    }

    // Logging

    public void trace(Function0<String> message) { }

    public void debug(Function0<String> message) { }

    public void error(Function0<String> message) { }
}
