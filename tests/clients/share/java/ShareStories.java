import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeShareGroupsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Plays stories of Java's share consumer on any Kafka address and prints what it saw, line by line.
 *
 * <p>{@code ShareStories BOOTSTRAP FILE THREADS}. A story begins with {@code story NAME}; each further line is a command and
 * its words. Topics, groups and transactional ids are the story's own: their names begin with the story's. An answer is one
 * line, {@code NAME<tab>COMMAND<tab>ANSWER}, of which ids, addresses and members that Kafka draws are taken out.
 */
public final class ShareStories {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private final String bootstrap;
    private final String name;
    private final Admin admin;
    private final Map<String, KafkaShareConsumer<String, String>> members = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> others = new HashMap<>();
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, Map<String, ConsumerRecord<String, String>>> last = new HashMap<>();
    private final Map<String, Queue<String>> callbacks = new HashMap<>();
    private final List<String> lines = new ArrayList<>();

    private ShareStories(String bootstrap, String name, Admin admin) {
        this.bootstrap = bootstrap;
        this.name = name;
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 3) {
            System.err.println("usage: ShareStories BOOTSTRAP FILE THREADS");
            System.exit(2);
        }
        Map<String, List<String>> stories = new LinkedHashMap<>();
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            String text = line.strip();
            if (text.startsWith("story ")) {
                stories.put(text.substring(6), new ArrayList<>());
            } else if (!text.isEmpty() && !text.startsWith("#")) {
                new ArrayDeque<>(stories.values()).getLast().add(text);
            }
        }
        Queue<String> waiting = new ConcurrentLinkedQueue<>(stories.keySet());
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            Thread thread = new Thread(() -> {
                for (String each = waiting.poll(); each != null; each = waiting.poll()) {
                    try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
                        new ShareStories(args[0], each, admin).play(stories.get(each));
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        OUT.flush();
    }

    private void play(List<String> commands) {
        for (String command : commands) {
            String answer;
            try {
                answer = answer(command.split("\\s+"));
            } catch (Throwable failure) {
                answer = told(failure);
            }
            lines.add(name + "\t" + command + "\t" + plain(answer));
        }
        members.values().forEach(each -> quietly(() -> each.close(Duration.ofSeconds(2))));
        others.values().forEach(each -> quietly(each::close));
        producers.values().forEach(each -> quietly(() -> each.close(Duration.ofSeconds(1))));
        synchronized (OUT) {
            lines.forEach(OUT::println);
            OUT.flush();
        }
    }

    private static void quietly(Runnable close) {
        try {
            close.run();
        } catch (KafkaException | IllegalStateException closed) {
            // it told that in the story
        }
    }

    private String answer(String[] words) throws Exception {
        String first = words.length > 1 ? words[1] : "";
        List<String> rest = words.length > 2 ? Arrays.asList(words).subList(2, words.length) : List.of();
        switch (words[0]) {
            case "topic":
                int count = rest.isEmpty() ? 1 : Integer.parseInt(rest.get(0));
                NewTopic fresh = new NewTopic(own(first), count, (short) 1);
                Map<String, String> configs = new HashMap<>(pairs(rest));
                return done(admin.createTopics(List.of(fresh.configs(configs))).all());
            case "partitions":
                return done(admin.createPartitions(Map.of(own(first), NewPartitions.increaseTo(Integer.parseInt(rest.get(0))))).all());
            case "drop":
                return done(admin.deleteTopics(List.of(own(first))).all());
            case "delete-records":
                TopicPartition at = at(first);
                RecordsToDelete until = RecordsToDelete.beforeOffset(Long.parseLong(rest.get(0)));
                return "low " + got(admin.deleteRecords(Map.of(at, until)).lowWatermarks().get(at)).lowWatermark();
            case "config":
                return configure(ConfigResource.Type.GROUP, own(first), rest);
            case "unconfig":
                return unconfigure(own(first), rest);
            case "broker-config":
                return configure(ConfigResource.Type.BROKER, first.equals("-") ? "" : first, rest);
            case "feature":
                String[] level = first.split("=");
                short to = Short.parseShort(level[1]);
                var update = new FeatureUpdate(to, to == 0 ? FeatureUpdate.UpgradeType.SAFE_DOWNGRADE : FeatureUpdate.UpgradeType.UPGRADE);
                return done(admin.updateFeatures(Map.of(level[0], update), new UpdateFeaturesOptions()).all());
            case "features":
                var features = got(admin.describeFeatures().featureMetadata());
                return features.finalizedFeatures().get(first) + " of " + features.supportedFeatures().get(first);
            case "deny":
                var of = new ResourcePattern(ResourceType.fromString(first), own(rest.get(0)), PatternType.LITERAL);
                var who = new AccessControlEntry("User:ANONYMOUS", "*", AclOperation.fromString(rest.get(1)), AclPermissionType.DENY);
                return done(admin.createAcls(List.of(new AclBinding(of, who))).all());
            case "topic-config":
                return configure(ConfigResource.Type.TOPIC, own(first), rest);
            case "configs":
                return configs(ConfigResource.Type.GROUP, own(first), rest);
            case "topic-configs":
                return configs(ConfigResource.Type.TOPIC, own(first), rest);
            case "send":
                return send(producer(first, Map.of()), rest);
            case "begin":
                Map<String, Object> settings = new HashMap<>(pairs(rest));
                settings.put("transactional.id", own(first));
                KafkaProducer<String, String> begun = producer(first, settings);
                if (!lasting.contains(first)) {
                    begun.initTransactions();
                    lasting.add(first);
                }
                begun.beginTransaction();
                return "ok";
            case "commit-txn":
                producers.get(first).commitTransaction();
                return "ok";
            case "abort-txn":
                producers.get(first).abortTransaction();
                return "ok";
            case "fence":
                return done(admin.fenceProducers(List.of(own(first))).all());
            case "member":
                return member(first, rest);
            case "subscribe":
                members.get(first).subscribe(rest.stream().map(this::own).toList());
                return "ok";
            case "subscription":
                return members.get(first).subscription().stream().map(this::plain).sorted().toList().toString();
            case "unsubscribe":
                members.get(first).unsubscribe();
                return "ok";
            case "poll":
                return poll(first, rest.isEmpty() ? 1 : Integer.parseInt(rest.get(0)), rest.size() < 2 ? 15_000 : Integer.parseInt(rest.get(1)));
            case "once":
                return seen(first, members.get(first).poll(Duration.ofMillis(Integer.parseInt(rest.get(0)))));
            case "ack":
                return acknowledge(first, rest);
            case "ack-by":
                return acknowledgeBy(first, rest.get(0));
            case "ack-at":
                TopicPartition there = at(rest.get(0));
                members.get(first).acknowledge(there.topic(), there.partition(), Long.parseLong(rest.get(1)), type(rest.get(2)));
                return "ok";
            case "commit":
                return outcome(rest.isEmpty() ? members.get(first).commitSync() : members.get(first).commitSync(Duration.ofMillis(Long.parseLong(rest.get(0)))));
            case "async":
                members.get(first).commitAsync();
                return "ok";
            case "callbacks":
                Queue<String> told = callbacks.get(first);
                String all = told.toString();
                told.clear();
                return all;
            case "lock":
                return members.get(first).acquisitionLockTimeoutMs().toString();
            case "wakeup":
                members.get(first).wakeup();
                return "ok";
            case "close":
                members.remove(first).close();
                return "ok";
            case "wait":
                Thread.sleep(Long.parseLong(first));
                return "ok";
            case "consumer":
                return other(first, rest);
            case "consume":
                others.get(first).poll(Duration.ofMillis(3000));
                return "ok";
            case "read":
                return read(at(first), Integer.parseInt(rest.get(0)));
            case "stop-consumer":
                others.remove(first).close();
                return "ok";
            case "describe":
                return described(got(admin.describeShareGroups(List.of(own(first))).describedGroups().get(own(first))));
            case "settle":
                return settle(first, Integer.parseInt(rest.get(0)));
            case "offsets":
                return offsets(first, rest);
            case "alter":
                Map<TopicPartition, Long> wanted = new HashMap<>();
                rest.forEach(each -> wanted.put(at(each.split("=")[0]), Long.parseLong(each.split("=")[1])));
                var altered = admin.alterShareGroupOffsets(own(first), wanted);
                return each(new TreeMap<>(wanted.keySet().stream().collect(Collectors.toMap(this::short_, altered::partitionResult))));
            case "delete-offsets":
                Set<String> topics = rest.stream().map(this::own).collect(Collectors.toSet());
                var deleted = admin.deleteShareGroupOffsets(own(first), topics);
                return each(new TreeMap<>(topics.stream().collect(Collectors.toMap(t -> plain(t), deleted::topicResult))));
            case "delete-group":
                return done(admin.deleteShareGroups(List.of(own(first))).all());
            case "close-now":
                members.remove(first).close(Duration.ZERO);
                return "ok";
            case "instance":
                return members.get(first).clientInstanceId(Duration.ofSeconds(2)).toString();
            case "describe-consumer":
                var consumers = got(admin.describeConsumerGroups(List.of(own(first))).describedGroups().get(own(first)));
                return consumers.type() + " " + consumers.groupState() + " " + consumers.members().size();
            case "describe-classic":
                var classic = got(admin.describeClassicGroups(List.of(own(first))).describedGroups().get(own(first)));
                return classic.protocol() + " " + classic.state() + " " + classic.members().size();
            case "describe-streams":
                return got(admin.describeStreamsGroups(List.of(own(first))).describedGroups().get(own(first))).groupState().toString();
            case "operations":
                var options = new DescribeShareGroupsOptions().includeAuthorizedOperations(true);
                var group = got(admin.describeShareGroups(List.of(own(first)), options).describedGroups().get(own(first)));
                return new TreeSet<>(group.authorizedOperations()).toString();
            case "consumer-offsets":
                return plain(got(admin.listConsumerGroupOffsets(own(first)).partitionsToOffsetAndMetadata()).toString());
            case "alter-consumer-offsets":
                return done(admin.alterConsumerGroupOffsets(own(first), Map.of(at(rest.get(0)), new OffsetAndMetadata(1))).all());
            case "delete-consumer-offsets":
                return done(admin.deleteConsumerGroupOffsets(own(first), Set.of(at(rest.get(0)))).all());
            case "remove-members":
                return done(admin.removeMembersFromConsumerGroup(own(first), new RemoveMembersFromConsumerGroupOptions()).all());
            case "delete-consumer-group":
                return done(admin.deleteConsumerGroups(List.of(own(first))).all());
            case "list":
                return list(words);
            case "raw-groups":
                return list(new String[] {"list"});
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    private final Set<String> lasting = new HashSet<>();

    // Names

    private String own(String given) {
        return given.startsWith("/") ? given.substring(1) : name + "-" + given;
    }

    private TopicPartition at(String place) {
        int dash = place.lastIndexOf('-');
        return new TopicPartition(own(place.substring(0, dash)), Integer.parseInt(place.substring(dash + 1)));
    }

    private String short_(TopicPartition place) {
        return plain(place.toString());
    }

    private String plain(String text) {
        return text.replace(name + "-", "")
                .replaceAll("127\\.0\\.0\\.1:\\d+", "ADDRESS")
                .replaceAll("(?<![\\w-])[\\w-]{22}(?![\\w-])", "ID")
                .replaceAll("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID")
                .replaceAll("\\d+ ms past its expiration of \\d+", "N ms past its expiration")
                .replace('\n', ' ');
    }

    private static Map<String, String> pairs(List<String> words) {
        Map<String, String> all = new LinkedHashMap<>();
        for (String word : words) {
            int equals = word.indexOf('=');
            if (equals > 0) {
                all.put(word.substring(0, equals), word.substring(equals + 1));
            }
        }
        return all;
    }

    private static AcknowledgeType type(String word) {
        return AcknowledgeType.valueOf(word.toUpperCase());
    }

    // Answers

    private static String told(Throwable failure) {
        Throwable cause = failure;
        while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    private static <T> T got(Future<T> future) throws Exception {
        return future.get();
    }

    private static String done(Future<?> future) throws Exception {
        future.get();
        return "ok";
    }

    private static String each(Map<String, ? extends Future<?>> futures) {
        List<String> all = new ArrayList<>();
        futures.forEach((place, future) -> {
            try {
                future.get();
                all.add(place + " ok");
            } catch (Exception failure) {
                all.add(place + " " + told(failure));
            }
        });
        return all.toString();
    }

    private String seen(String member, ConsumerRecords<String, String> records) {
        Map<String, ConsumerRecord<String, String>> kept = last.get(member);
        kept.clear();
        StringBuilder text = new StringBuilder();
        for (TopicPartition place : records.partitions().stream().sorted((a, b) -> a.toString().compareTo(b.toString())).toList()) {
            text.append(short_(place)).append('[');
            long from = -1;
            long to = -2;
            int times = 0;
            for (ConsumerRecord<String, String> each : records.records(place)) {
                kept.put(short_(place) + "@" + each.offset(), each);
                int now = each.deliveryCount().map(Short::intValue).orElse(-1);
                if (each.offset() != to + 1 || now != times) {
                    if (from >= 0) {
                        text.append(range(from, to, times)).append(' ');
                    }
                    from = each.offset();
                    times = now;
                }
                to = each.offset();
            }
            text.append(range(from, to, times)).append(']');
        }
        return text.isEmpty() ? "nothing" : text.toString();
    }

    private static String range(long from, long to, int times) {
        return (from == to ? "" + from : from + "-" + to) + "x" + times;
    }

    private String poll(String member, int wanted, int withinMs) {
        List<String> all = new ArrayList<>();
        int count = 0;
        long until = System.nanoTime() + withinMs * 1_000_000L;
        do {
            long left = Math.max(0, (until - System.nanoTime()) / 1_000_000L);
            ConsumerRecords<String, String> records = members.get(member).poll(Duration.ofMillis(Math.min(left, 500)));
            if (!records.isEmpty()) {
                all.add(seen(member, records));
                count += records.count();
            }
        } while ((wanted == 0 || count < wanted) && System.nanoTime() < until);
        if (all.isEmpty()) {
            last.get(member).clear();
        }
        return all.isEmpty() ? "nothing" : String.join(" | ", all);
    }

    private String acknowledge(String member, List<String> words) {
        AcknowledgeType type = type(words.get(0));
        String place = words.size() > 2 ? words.get(2) : null;
        Map<String, ConsumerRecord<String, String>> kept = last.get(member);
        if (words.size() == 1) {
            kept.values().forEach(each -> members.get(member).acknowledge(each, type));
            return "ok";
        }
        for (String range : words.get(1).split(",")) {
            String[] ends = range.split("-");
            for (long offset = Long.parseLong(ends[0]); offset <= Long.parseLong(ends[ends.length - 1]); offset++) {
                String suffix = "@" + offset;
                ConsumerRecord<String, String> found = kept.entrySet().stream()
                        .filter(each -> place == null ? each.getKey().endsWith(suffix) : each.getKey().equals(place + suffix))
                        .map(Map.Entry::getValue)
                        .findFirst()
                        .orElseThrow(() -> new IllegalArgumentException("not polled: " + suffix));
                members.get(member).acknowledge(found, type);
            }
        }
        return "ok";
    }

    /** Each record of the last poll gets one of these letters (accept, release, reJect), by its offset. */
    private String acknowledgeBy(String member, String letters) {
        for (ConsumerRecord<String, String> each : last.get(member).values()) {
            char letter = letters.charAt((int) (each.offset() * 7 % letters.length()));
            AcknowledgeType type = letter == 'a' ? AcknowledgeType.ACCEPT : letter == 'r' ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT;
            members.get(member).acknowledge(each, type);
        }
        return "ok";
    }

    private String outcome(Map<TopicIdPartition, Optional<KafkaException>> results) {
        Map<String, String> all = new TreeMap<>();
        results.forEach((place, failure) -> all.put(short_(place.topicPartition()), failure.map(ShareStories::told).orElse("ok")));
        return all.toString();
    }

    private static String offsetsOf(Collection<Long> offsets) {
        StringBuilder text = new StringBuilder();
        Long from = null;
        Long to = null;
        for (Long each : new TreeSet<>(offsets)) {
            if (to == null || each != to + 1) {
                if (from != null) {
                    text.append(from.equals(to) ? from + " " : from + "-" + to + " ");
                }
                from = each;
            }
            to = each;
        }
        return from == null ? "" : text.append(from.equals(to) ? "" + from : from + "-" + to).toString();
    }

    // Commands

    private String member(String member, List<String> words) {
        Map<String, Object> settings = new HashMap<>(pairs(words));
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", own(words.get(0)));
        settings.putIfAbsent("client.id", member);
        settings.putIfAbsent("retry.backoff.ms", "50");
        boolean picky = settings.remove("values") != null;
        boolean throwing = settings.remove("callback") != null;
        Deserializer<String> values = (topic, data) -> {
            String value = data == null ? null : new String(data, StandardCharsets.UTF_8);
            if (picky && "bad".equals(value)) {
                throw new SerializationException("bad value");
            }
            return value;
        };
        var made = new KafkaShareConsumer<>(settings, new StringDeserializer(), values);
        Queue<String> told = new ConcurrentLinkedQueue<>();
        made.setAcknowledgementCommitCallback((offsets, failure) -> {
            Map<String, String> all = new TreeMap<>();
            offsets.forEach((place, each) -> all.put(short_(place.topicPartition()), offsetsOf(each)));
            told.add(all + (failure == null ? " ok" : " " + plain(told(failure))));
            if (throwing) {
                throw new IllegalArgumentException("thrown by the callback");
            }
        });
        callbacks.put(member, told);
        last.put(member, new LinkedHashMap<>());
        members.put(member, made);
        return "ok";
    }

    private String other(String member, List<String> words) {
        Map<String, Object> settings = new HashMap<>(pairs(words));
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", own(words.get(0)));
        var made = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        others.put(member, made);
        made.subscribe(List.of(own(words.get(1))));
        return "ok";
    }

    /** Records of a partition from its beginning, with their headers. */
    private String read(TopicPartition place, int count) {
        List<String> all = new ArrayList<>();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "allow.auto.create.topics", "false");
        try (var reader = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            reader.assign(List.of(place));
            long until = System.nanoTime() + 8_000_000_000L;
            while (all.size() < count && System.nanoTime() < until) {
                reader.poll(Duration.ofMillis(300)).forEach(each -> {
                    List<String> headers = new ArrayList<>();
                    each.headers().forEach(one -> headers.add(one.key().replace("__dlq.errors.", "") + "=" + new String(one.value(), StandardCharsets.UTF_8)));
                    all.add(each.offset() + " " + each.key() + ":" + each.value() + " " + headers);
                });
            }
        }
        return String.join(" | ", all);
    }

    private KafkaProducer<String, String> producer(String key, Map<String, ?> more) {
        return producers.computeIfAbsent(key, any -> {
            Map<String, Object> settings = new HashMap<>(more);
            settings.put("bootstrap.servers", bootstrap);
            settings.putIfAbsent("linger.ms", "60000");
            settings.putIfAbsent("batch.size", "1000000");
            return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        });
    }

    /** One batch: PLACE COUNT, or PLACE and words of which {@code KEY:VALUE} has a key. */
    private String send(KafkaProducer<String, String> producer, List<String> words) throws Exception {
        TopicPartition place = at(words.get(0));
        List<Future<org.apache.kafka.clients.producer.RecordMetadata>> sent = new ArrayList<>();
        List<String> values = words.subList(1, words.size());
        if (values.size() == 1 && values.get(0).matches("\\d+(x\\d+)?")) {
            String[] parts = values.get(0).split("x");
            String padding = parts.length > 1 ? "v".repeat(Integer.parseInt(parts[1])) : "";
            for (int i = 0; i < Integer.parseInt(parts[0]); i++) {
                sent.add(producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, "v" + i + padding)));
            }
        } else {
            for (String value : values) {
                String[] parts = value.split(":");
                String key = parts.length > 1 ? parts[0] : null;
                sent.add(producer.send(new ProducerRecord<>(place.topic(), place.partition(), key, parts[parts.length - 1])));
            }
        }
        producer.flush();
        return got(sent.get(0)).offset() + "-" + got(sent.get(sent.size() - 1)).offset();
    }

    private String configure(ConfigResource.Type type, String of, List<String> words) throws Exception {
        ConfigResource resource = new ConfigResource(type, of);
        List<AlterConfigOp> changes = new ArrayList<>();
        pairs(words).forEach((key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        Thread.sleep(300); // a change reaches the brokers a moment later
        return "ok";
    }

    private String unconfigure(String group, List<String> names) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        List<AlterConfigOp> changes =
                names.stream().map(each -> new AlterConfigOp(new ConfigEntry(each, ""), AlterConfigOp.OpType.DELETE)).toList();
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        Thread.sleep(300);
        return "ok";
    }

    private String configs(ConfigResource.Type type, String of, List<String> prefixes) throws Exception {
        ConfigResource resource = new ConfigResource(type, of);
        Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        Map<String, String> all = new TreeMap<>();
        config.entries().stream()
                .filter(each -> prefixes.isEmpty() || prefixes.stream().anyMatch(each.name()::startsWith))
                .forEach(each -> all.put(each.name(), each.value() + " " + each.source() + (each.isReadOnly() ? " read-only" : "")));
        return all.toString();
    }

    private String described(ShareGroupDescription group) {
        List<String> each = group.members().stream()
                .map(member -> member.clientId() + " epoch " + member.memberEpoch() + " "
                        + member.assignment().topicPartitions().stream().map(this::short_).sorted().toList()
                        + member.rackId().map(rack -> " rack " + rack).orElse(""))
                .sorted()
                .toList();
        return group.groupState() + " epoch " + group.groupEpoch() + " target " + group.targetAssignmentEpoch() + " " + each;
    }

    /** Until the group has that many members, all of them at the group's epoch. */
    private String settle(String group, int count) throws Exception {
        for (int tries = 0; tries < 150; tries++) {
            members.values().forEach(each -> each.subscription());
            ShareGroupDescription now = got(admin.describeShareGroups(List.of(own(group))).describedGroups().get(own(group)));
            boolean even = now.members().stream().allMatch(each -> each.memberEpoch() == now.groupEpoch());
            if (now.members().size() == count && even && now.targetAssignmentEpoch() == now.groupEpoch()) {
                return "ok";
            }
            Thread.sleep(100);
        }
        return "not settled";
    }

    private String offsets(String group, List<String> topics) throws Exception {
        ListShareGroupOffsetsSpec spec = new ListShareGroupOffsetsSpec();
        if (!topics.isEmpty()) {
            spec.topicPartitions(topics.stream().map(this::at).toList());
        }
        Map<TopicPartition, SharePartitionOffsetInfo> all =
                got(admin.listShareGroupOffsets(Map.of(own(group), spec)).partitionsToOffsetInfo(own(group)));
        Map<String, String> told = new TreeMap<>();
        all.forEach((place, info) -> told.put(short_(place), info == null
                ? "none"
                : "start " + info.startOffset() + " epoch " + info.leaderEpoch().map(Object::toString).orElse("-")
                        + " lag " + info.lag().map(Object::toString).orElse("-")));
        return told.toString();
    }

    private String list(String[] words) throws Exception {
        ListGroupsOptions options = new ListGroupsOptions();
        Map<String, String> given = pairs(Arrays.asList(words));
        if (given.containsKey("types")) {
            options.withTypes(Arrays.stream(given.get("types").split(",")).map(GroupType::parse).collect(Collectors.toSet()));
        }
        if (given.containsKey("states")) {
            options.inGroupStates(Arrays.stream(given.get("states").split(",")).map(GroupState::parse).collect(Collectors.toSet()));
        }
        if (given.containsKey("protocols")) {
            options.withProtocolTypes(Set.of(given.get("protocols").split(",")));
        }
        return got(admin.listGroups(options).all()).stream()
                .filter(each -> each.groupId().startsWith(name + "-"))
                .map(each -> plain(each.groupId()) + " " + each.type().map(Object::toString).orElse("-") + " " + each.protocol() + " "
                        + each.groupState().map(Object::toString).orElse("-"))
                .sorted()
                .toList()
                .toString();
    }
}
