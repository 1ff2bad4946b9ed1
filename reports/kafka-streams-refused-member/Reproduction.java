import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CopyOnWriteArrayList;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;

/** A static member of a streams group loses its tasks as another instance with its instance id is refused. */
public final class Reproduction {
    private static final int TRIES = 4;
    private static final int WAIT_S = 60;

    public static void main(String[] words) throws Exception {
        try (Brokers brokers = new Brokers(1, Map.of())) {
            boolean control = !play(brokers, "control", false);
            boolean defect = false;
            for (int at = 1; at <= TRIES && !defect; at++) defect = play(brokers, "refused-" + at, true);
            var uncached = new AlterConfigOp(new ConfigEntry("streams.num.warmup.replicas", "0"), AlterConfigOp.OpType.SET);
            brokers.admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, "uncached"), List.of(uncached))).all().get();
            control &= !play(brokers, "uncached", true);
            Brokers.say(control && defect ? "REPRODUCED" : "NOT REPRODUCED");
            System.exit(control && defect ? 0 : 1);
        }
    }

    /** Whether the first instance is without a task at some moment, as a second one joins and a third one is refused. */
    private static boolean play(Brokers brokers, String name, boolean withIntruder) throws Exception {
        brokers.create(name, List.of(List.of(1), List.of(1)), Map.of());
        Brokers.say(name + ": " + (withIntruder ? "a third instance comes with the first one's group.instance.id" : "no third instance"));
        try (Instance first = new Instance(brokers, name, "a"); Instance second = new Instance(brokers, name, "b"); Instance third = new Instance(brokers, name, "a")) {
            first.streams.start();
            Brokers.await("the first instance has all", WAIT_S, () -> first.tasks().equals(Set.of("0_0", "0_1")));
            Brokers.say("  the first instance, with group.instance.id=a, has " + first.tasks());
            Thread.sleep(3_000); // the group is at rest
            second.streams.start();
            Brokers.await("the second instance has joined", WAIT_S, () -> group(brokers, name).members().size() == 2);
            Brokers.say("  a second instance has joined, with group.instance.id=b");
            if (withIntruder) third.streams.start();
            boolean isBare = settles(brokers, name, first, second);
            if (withIntruder) {
                Brokers.await("the third instance is refused", WAIT_S, () -> !third.failures.isEmpty());
                Brokers.say("  the third instance was refused: " + third.failures);
            }
            Brokers.await("each has one task", 1, () -> first.tasks().size() == 1 && second.tasks().size() == 1);
            Brokers.say("  the first instance has " + first.tasks() + ", the second one " + second.tasks());
            return isBare;
        }
    }

    /** Tells what the first instance has, until each instance has a task; whether it had none meanwhile. */
    private static boolean settles(Brokers brokers, String name, Instance first, Instance second) throws Exception {
        long end = System.nanoTime() + WAIT_S * 1_000_000_000L;
        long bareSince = 0;
        boolean wasBare = false;
        String told = "";
        while (System.nanoTime() < end && (first.tasks().size() != 1 || second.tasks().size() != 1)) {
            boolean isBare = first.tasks().isEmpty();
            if (isBare && bareSince == 0) {
                bareSince = System.nanoTime();
                wasBare = true;
                Brokers.say("  the first instance has no task");
            }
            if (bareSince != 0) {
                String now = described(group(brokers, name));
                if (!now.equals(told)) Brokers.say("    " + now);
                told = now;
            }
            Thread.sleep(50);
        }
        if (wasBare) Brokers.say("  it was without one for " + (System.nanoTime() - bareSince) / 100_000_000L / 10.0 + " s");
        return wasBare;
    }

    private static StreamsGroupDescription group(Brokers brokers, String name) throws Exception {
        return brokers.admin.describeStreamsGroups(List.of(name)).all().get().get(name);
    }

    private static String described(StreamsGroupDescription group) {
        List<String> found = new ArrayList<>();
        group.members().stream().sorted(Comparator.comparing(one -> one.instanceId().orElse(""))).forEach(one -> found.add(
            one.instanceId().orElse("") + " at epoch " + one.memberEpoch() + ": assigned " + ids(one.assignment()) + ", target " + ids(one.targetAssignment())));
        return "group " + group.groupState() + ", epoch " + group.groupEpoch() + "; " + String.join("; ", found);
    }

    private static Set<String> ids(StreamsGroupMemberAssignment assignment) {
        Set<String> found = new TreeSet<>();
        assignment.activeTasks().forEach(one -> one.partitions().forEach(at -> found.add(one.subtopologyId() + "_" + at)));
        return found;
    }

    /** A stock Kafka Streams instance with default settings, which reads the topic and does nothing. */
    private static final class Instance implements AutoCloseable {
        private final Path directory = Files.createTempDirectory("report-");
        private final List<String> failures = new CopyOnWriteArrayList<>();
        private final KafkaStreams streams;

        Instance(Brokers brokers, String name, String instanceId) throws Exception {
            Properties settings = new Properties();
            settings.put("application.id", name);
            settings.put("bootstrap.servers", brokers.bootstrap());
            settings.put("group.protocol", "streams");
            settings.put("group.instance.id", instanceId);
            settings.put("state.dir", directory.toString());
            StreamsBuilder builder = new StreamsBuilder();
            builder.stream(name, Consumed.with(Serdes.String(), Serdes.String())).foreach((key, value) -> { });
            streams = new KafkaStreams(builder.build(), settings);
            streams.setUncaughtExceptionHandler(failure -> {
                Throwable cause = failure;
                while (cause.getCause() != null) cause = cause.getCause();
                failures.add(cause.getClass().getSimpleName());
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
        }

        Set<String> tasks() {
            Set<String> found = new TreeSet<>();
            streams.metadataForLocalThreads().forEach(thread -> thread.activeTasks().forEach(task -> found.add(task.taskId().toString())));
            return found;
        }

        @Override
        public void close() throws Exception {
            streams.close(Duration.ofSeconds(10));
            try (var paths = Files.walk(directory)) {
                paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
            }
        }
    }
}
