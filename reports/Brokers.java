import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.TimeoutException;

/** Stock brokers on this machine, each a process of its own. Node 1 is the controller, too. The class path is that of this program. */
public final class Brokers implements AutoCloseable {
    private final Path home = Files.createTempDirectory("report-");
    private final String clusterId = Uuid.randomUuid().toString();
    private final Map<Integer, Process> processes = new TreeMap<>();
    private final Map<Integer, Integer> ports = new TreeMap<>();
    private final int controllerPort;
    public final Admin admin;
    private final Admin hasty; // it asks another broker where one stands still

    public Brokers(int count, Map<String, String> properties) throws Exception {
        List<Integer> free = freePorts(count + 1);
        controllerPort = free.get(0);
        for (int id = 1; id <= count; id++) ports.put(id, free.get(id));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> processes.values().forEach(Process::destroyForcibly)));
        for (int id : ports.keySet()) {
            Path file = directory(id).resolve("server.properties");
            Files.createDirectories(directory(id));
            Map<String, String> all = settings(id, Math.min(3, count));
            all.putAll(properties);
            Files.write(file, all.entrySet().stream().map(one -> one.getKey() + "=" + one.getValue()).toList());
            Process format = java(id, "format.log", "kafka.tools.StorageTool", "format", "-t", clusterId, "-c", file.toString());
            if (format.waitFor() != 0) throw new IllegalStateException(Files.readString(directory(id).resolve("format.log")));
        }
        for (int id : ports.keySet()) start(id);
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap(), "request.timeout.ms", 10_000));
        hasty = Admin.create(Map.of("bootstrap.servers", bootstrap(), "request.timeout.ms", 1_500, "default.api.timeout.ms", 1_500));
        await("all brokers are there", 120, () -> admin.describeCluster().nodes().get().size() == count);
    }

    private Path directory(int id) {
        return home.resolve("node-" + id);
    }

    private Map<String, String> settings(int id, int replicas) {
        Map<String, String> all = new LinkedHashMap<>();
        all.put("node.id", "" + id);
        all.put("process.roles", id == 1 ? "broker,controller" : "broker");
        all.put("controller.quorum.voters", "1@127.0.0.1:" + controllerPort);
        all.put("controller.listener.names", "CONTROLLER");
        String own = "PLAINTEXT://127.0.0.1:" + ports.get(id);
        all.put("listeners", id == 1 ? own + ",CONTROLLER://127.0.0.1:" + controllerPort : own);
        all.put("advertised.listeners", own);
        all.put("log.dirs", directory(id).resolve("data").toString());
        for (String topic : List.of("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")) {
            all.put(topic + ".num.partitions", "1");
            all.put(topic + ".replication.factor", "" + replicas);
        }
        all.put("transaction.state.log.min.isr", "" + Math.min(2, replicas));
        all.put("share.coordinator.state.topic.min.isr", "1");
        all.put("group.initial.rebalance.delay.ms", "0");
        all.put("auto.leader.rebalance.enable", "false");
        return all;
    }

    private Process java(int id, String log, String... words) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of("-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path")));
        command.addAll(List.of(words));
        return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(directory(id).resolve(log).toFile()).start();
    }

    public String bootstrap() {
        return ports.values().stream().map(port -> "127.0.0.1:" + port).collect(Collectors.joining(","));
    }

    public int port(int id) {
        return ports.get(id);
    }

    public void start(int id) throws IOException {
        processes.put(id, java(id, "broker.log", "kafka.Kafka", directory(id).resolve("server.properties").toString()));
    }

    public void kill(int id) throws InterruptedException {
        processes.get(id).destroyForcibly().waitFor();
    }

    /** The process stands still, and keeps its connections: a long pause of the machine or of the garbage collector. */
    public void pause(int id) throws Exception {
        signal(id, "-STOP");
    }

    public void resume(int id) throws Exception {
        signal(id, "-CONT");
    }

    private void signal(int id, String name) throws Exception {
        new ProcessBuilder("kill", name, "" + processes.get(id).pid()).start().waitFor();
    }

    public void create(String topic, List<List<Integer>> replicas, Map<String, String> configs) throws Exception {
        Map<Integer, List<Integer>> assigned = IntStream.range(0, replicas.size()).boxed().collect(Collectors.toMap(one -> one, replicas::get));
        admin.createTopics(List.of(new NewTopic(topic, assigned).configs(configs))).all().get();
        await(topic + " has leaders", 60, () -> partitions(topic).stream().allMatch(one -> one.leader() != null));
    }

    public List<TopicPartitionInfo> partitions(String topic) throws Exception {
        return answered(() -> hasty.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions());
    }

    private static <T> T answered(Callable<T> ask) throws Exception {
        for (int left = 20; ; left--) {
            try {
                return ask.call();
            } catch (ExecutionException failed) {
                if (left == 0 || !(failed.getCause() instanceof TimeoutException)) throw failed;
            }
        }
    }

    public TopicPartitionInfo partition(TopicPartition at) throws Exception {
        return partitions(at.topic()).get(at.partition());
    }

    /** Id of the leader, or none. */
    public Optional<Integer> leader(TopicPartition at) throws Exception {
        return Optional.ofNullable(partition(at).leader()).filter(one -> !one.isEmpty()).map(Node::id);
    }

    public void reassign(TopicPartition at, List<Integer> replicas) throws Exception {
        answered(() -> hasty.alterPartitionReassignments(Map.of(at, Optional.of(new NewPartitionReassignment(replicas)))).all().get());
        await(at + " is reassigned", 60, () -> hasty.listPartitionReassignments(Set.of(at)).reassignments().get().isEmpty());
    }

    /** The replica becomes the preferred one, and is elected. */
    public void move(TopicPartition at, int to) throws Exception {
        List<Integer> replicas = new ArrayList<>(partition(at).replicas().stream().map(Node::id).toList());
        replicas.remove((Integer) to);
        replicas.add(0, to);
        reassign(at, replicas);
        try {
            answered(() -> hasty.electLeaders(ElectionType.PREFERRED, Set.of(at)).all().get());
        } catch (Exception failed) {
            if (!(failed.getCause() instanceof ElectionNotNeededException)) throw failed;
        }
        await(at + " is led by " + to, 60, () -> leader(at).equals(Optional.of(to)));
    }

    public static boolean within(int seconds, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (System.nanoTime() < end) {
            try {
                if (condition.call()) return true;
            } catch (ExecutionException again) {
                // a broker is not there yet
            }
            Thread.sleep(200);
        }
        return false;
    }

    public static void await(String what, int seconds, Callable<Boolean> condition) throws Exception {
        if (!within(seconds, condition)) throw new IllegalStateException("in vain for " + seconds + " s: " + what);
    }

    public static void say(String line) {
        System.out.println(line);
    }

    private static List<Integer> freePorts(int count) throws IOException {
        List<ServerSocket> sockets = new ArrayList<>();
        for (int at = 0; at < count; at++) sockets.add(new ServerSocket(0));
        List<Integer> found = sockets.stream().map(ServerSocket::getLocalPort).toList();
        for (ServerSocket one : sockets) one.close();
        return found;
    }

    @Override
    public void close() throws Exception {
        for (Admin one : List.of(admin, hasty)) one.close(Duration.ZERO);
        for (Process one : processes.values()) one.destroyForcibly().waitFor();
        try (var paths = Files.walk(home)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }
}
