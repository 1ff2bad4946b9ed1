import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.TopicPartition;

/** What an administrator does in the exam, with kafka-clients. */
final class ExamAdmin {
    static void carryOut(Map<String, String> command, Map<String, Object> settings) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            if (command.get("do").equals("fence")) {
                admin.fenceProducers(List.of(command.get("transactional_id"))).all().get();
            } else {
                abortOpen(admin, new TopicPartition(command.get("topic"), Integer.parseInt(command.get("partition"))));
            }
        }
    }

    private static void abortOpen(Admin admin, TopicPartition partition) throws Exception {
        for (ProducerState producer : admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers()) {
            if (producer.currentTransactionStartOffset().isPresent()) {
                int coordinatorEpoch = producer.coordinatorEpoch().orElse(0);
                admin.abortTransaction(new AbortTransactionSpec(partition, producer.producerId(), (short) producer.producerEpoch(), coordinatorEpoch)).all().get();
            }
        }
    }
}
