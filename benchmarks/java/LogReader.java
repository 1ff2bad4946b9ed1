import java.io.File;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * Reads the segments of log directories in one thread, with Kafka's own classes. Arguments: what to
 * do (count, sums, find_hanging), how often, and a log directory. Prints a line for each time:
 * seconds and answer.
 */
public final class LogReader {
    public static void main(String[] arguments) throws Exception {
        for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
            long beganNs = System.nanoTime();
            String answer = answer(arguments[0], new File(arguments[2]));
            System.out.println((System.nanoTime() - beganNs) / 1e9 + " " + answer);
        }
    }

    private static String answer(String question, File logDir) throws Exception {
        long records = 0, bytes = 0, offsets = 0, hanging = 0;
        File[] replicas = logDir.listFiles(File::isDirectory);
        Arrays.sort(replicas);
        for (File replica : replicas) {
            Map<Long, Long> open = new HashMap<>();
            File[] segments = replica.listFiles((folder, name) -> name.endsWith(".log"));
            Arrays.sort(segments);
            for (File segment : segments) {
                try (FileRecords file = FileRecords.open(segment, false)) {
                    for (RecordBatch batch : file.batches()) {
                        if (question.equals("find_hanging")) {
                            if (batch.isControlBatch()) {
                                open.remove(batch.producerId());
                            } else if (batch.isTransactional()) {
                                open.putIfAbsent(batch.producerId(), batch.baseOffset());
                            }
                            continue;
                        }
                        for (Record record : batch) {
                            records++;
                            if (question.equals("sums") && !batch.isControlBatch()) {
                                bytes += record.valueSize();
                                offsets += record.offset();
                            }
                        }
                    }
                }
            }
            hanging += open.size();
        }
        switch (question) {
            case "count":
                return String.valueOf(records);
            case "sums":
                return bytes + " " + offsets;
            default:
                return String.valueOf(hanging);
        }
    }
}
