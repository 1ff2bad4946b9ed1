package org.apache.flink.connector.kafka.sink;

import exam.Contract;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.flink.api.common.TaskInfoImpl;
import org.apache.flink.api.connector.sink2.*;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.lineage.*;
import org.apache.flink.core.io.SimpleVersionedSerialization;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.metrics.groups.InternalSinkWriterMetricGroup;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Flink's sink for Kafka sits the exam of txnsim: docs/exam.md. A producer is a writer with its committer, as one task has them, and
 * the id that the exam names is the prefix of its ids. A commit is a checkpoint, and what it leaves is the state that a restart is given.
 * With the argument pooling the ids are reused, else there is a new one for each checkpoint.
 */
public final class FlinkDriver {
    private final Map<String, Task> tasks = new HashMap<>();
    private final TransactionNamingStrategy naming;
    private int attempts;

    private FlinkDriver(TransactionNamingStrategy naming) {
        this.naming = naming;
    }

    public static void main(String[] arguments) throws Exception {
        boolean pools = List.of(arguments).contains("pooling");
        Contract.serve(new FlinkDriver(pools ? TransactionNamingStrategy.POOLING : TransactionNamingStrategy.INCREMENTING)::answer);
    }

    private String answer(Map<String, String> command) throws Exception {
        Task task = tasks.get(command.get("producer"));
        switch (command.get("do")) {
            case "describe" -> {
                return Contract.description("flink-connector-kafka, " + naming, KafkaSink.class);
            }
            case "init" -> tasks.put(command.get("producer"), new Task(command));
            case "begin" -> { } // a writer has begun by itself
            case "send" -> task.send(new ProducerRecord<>(command.get("topic"), Integer.parseInt(command.get("partition")), null, command.get("value").getBytes()));
            case "commit" -> {
                return ",\"state\":" + Contract.quoted(task.checkpoint());
            }
            case "close" -> {
                task = tasks.remove(command.get("name"));
                if (task != null) {
                    task.close();
                }
            }
            default -> throw new UnsupportedOperationException(command.get("do")); // an abort is a restart
        }
        return "";
    }

    /** What the committer wants to try again at its next turn. */
    private static final class RetryLater extends org.apache.kafka.common.errors.TimeoutException {
        RetryLater(String transactionalId) {
            super("the commit of " + transactionalId + " is to be tried again");
        }
    }

    private final class Task {
        private final KafkaSink<ProducerRecord<byte[], byte[]>> sink;
        private final KafkaWriter<ProducerRecord<byte[], byte[]>> writer;
        private final Committer<KafkaCommittable> committer;
        private final List<KafkaCommittable> pending = new ArrayList<>();
        private String state = "";
        private long checkpoint;

        Task(Map<String, String> command) throws Exception {
            Properties settings = new Properties();
            Contract.producerSettings(command).forEach((key, value) -> settings.put(key, value.toString()));
            sink = KafkaSink.<ProducerRecord<byte[], byte[]>>builder().setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE).setRecordSerializer(new AsItIs())
                    .setTransactionalIdPrefix(command.get("transactional_id")).setTransactionNamingStrategy(naming).setKafkaProducerConfig(settings).build();
            List<KafkaWriterState> writerStates = new ArrayList<>();
            if (command.containsKey("state")) {
                String[] stateParts = command.get("state").split(" ");
                checkpoint = Long.parseLong(stateParts[0]);
                for (String statePart : Arrays.asList(stateParts).subList(1, stateParts.length)) {
                    byte[] bytes = Base64.getDecoder().decode(statePart.substring(1));
                    if (statePart.startsWith("w")) {
                        writerStates.add(SimpleVersionedSerialization.readVersionAndDeSerialize(sink.getWriterStateSerializer(), bytes));
                    } else {
                        pending.add(SimpleVersionedSerialization.readVersionAndDeSerialize(sink.getCommittableSerializer(), bytes));
                    }
                }
            }
            Map<String, Object> context = new HashMap<>(Map.of("getTaskInfo", new TaskInfoImpl("sink", 1, 0, 1, attempts++),
                    "getRestoredCheckpointId", checkpoint > 0 ? OptionalLong.of(checkpoint) : OptionalLong.empty(), "metadataConsumer", Optional.empty(),
                    "metricGroup", InternalSinkWriterMetricGroup.wrap(UnregisteredMetricsGroup.createOperatorMetricGroup()),
                    "getProcessingTimeService", only(org.apache.flink.api.common.operators.ProcessingTimeService.class, Map.of("getCurrentProcessingTime", 0L)),
                    "getMailboxExecutor", only(org.apache.flink.api.common.operators.MailboxExecutor.class, Map.of())));
            writer = sink.restoreWriter(only(WriterInitContext.class, context), writerStates);
            context.remove("metricGroup"); // the committer's is of another kind
            committer = sink.createCommitter(only(CommitterInitContext.class, context));
            try {
                commit();
            } catch (org.apache.kafka.common.KafkaException refused) {
                pending.clear(); // a restart goes on without what is fenced or has ended
            }
        }

        void send(ProducerRecord<byte[], byte[]> record) throws Exception {
            writer.write(record, only(SinkWriter.Context.class, Map.of()));
            writer.flush(false);
        }

        /** The task's part of a checkpoint, which is complete then; the state that it leaves. */
        String checkpoint() throws Exception {
            if (pending.isEmpty()) {
                writer.flush(false);
                pending.addAll(writer.prepareCommit());
                StringBuilder checkpointState = new StringBuilder(String.valueOf(++checkpoint));
                for (KafkaWriterState writerState : writer.snapshotState(checkpoint)) {
                    checkpointState.append(" w").append(encoded(SimpleVersionedSerialization.writeVersionAndSerialize(sink.getWriterStateSerializer(), writerState)));
                }
                for (KafkaCommittable committable : pending) {
                    checkpointState.append(" c").append(encoded(SimpleVersionedSerialization.writeVersionAndSerialize(sink.getCommittableSerializer(), committable)));
                }
                state = checkpointState.toString();
            }
            commit();
            return state;
        }

        private void commit() throws Exception {
            for (KafkaCommittable committable : List.copyOf(pending)) {
                Request request = new Request(committable);
                committer.commit(List.of(request));
                if (request.error != null) {
                    throw request.error;
                }
                pending.remove(committable);
            }
        }

        void close() throws Exception {
            writer.close();
            committer.close();
        }
    }

    private static String encoded(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** What the committer says of one transaction. */
    private static final class Request implements Committer.CommitRequest<KafkaCommittable> {
        private final KafkaCommittable committable;
        private Exception error;

        Request(KafkaCommittable committable) {
            this.committable = committable;
        }

        @Override
        public KafkaCommittable getCommittable() {
            return committable;
        }

        @Override
        public int getNumberOfRetries() {
            return 0;
        }

        @Override
        public void signalFailedWithKnownReason(Throwable raised) {
            error = (Exception) raised;
        }

        @Override
        public void signalFailedWithUnknownReason(Throwable raised) {
            error = (Exception) raised;
        }

        @Override
        public void retryLater() {
            error = new RetryLater(committable.getTransactionalId());
        }

        @Override
        public void updateAndRetryLater(KafkaCommittable changed) {
            retryLater();
        }

        @Override
        public void signalAlreadyCommitted() { }
    }

    /** Elements are records, and may be of any topic. */
    private static final class AsItIs implements KafkaRecordSerializationSchema<ProducerRecord<byte[], byte[]>>, KafkaDatasetFacetProvider {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(ProducerRecord<byte[], byte[]> element, KafkaSinkContext context, Long timestamp) {
            return element;
        }

        @Override
        public Optional<KafkaDatasetFacet> getKafkaDatasetFacet() {
            return Optional.of(new DefaultKafkaDatasetFacet(DefaultKafkaDatasetIdentifier.ofPattern(Pattern.compile(".*"))));
        }
    }

    /** What Flink's runtime gives to a task, as far as it is asked for here. */
    private static <T> T only(Class<T> type, Map<String, Object> answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, values) -> answers.get(method.getName())));
    }
}
