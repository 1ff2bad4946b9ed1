import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions until standard input ends, whatever happens to the brokers: {@code Soak BOOTSTRAP TOPIC PARTITIONS
 * PRODUCERS PER_SECOND}. What its lines mean: tests/soak.
 */
public final class Soak {
    private static final int COMMITS = 3;

    private final String bootstrap;
    private final String topic;
    private final int partitions;
    private final long pauseNs;
    private volatile boolean stopped;

    private Soak(String bootstrap, String topic, int partitions, int producers, double perSecond) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.partitions = partitions;
        this.pauseNs = (long) (producers * 1e9 / perSecond);
    }

    public static void main(String[] args) throws Exception {
        int producers = Integer.parseInt(args[3]);
        Soak soak = new Soak(args[0], args[1], Integer.parseInt(args[2]), producers, Double.parseDouble(args[4]));
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < producers; i++) {
            String name = "java-" + i;
            Thread thread = new Thread(() -> soak.produce(name));
            thread.start();
            threads.add(thread);
        }
        while (System.in.read() >= 0) {
            continue;
        }
        soak.stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void produce(String name) {
        int number = 0;
        while (!stopped) {
            try (KafkaProducer<String, String> producer = producer(name)) {
                boolean goesOn = initialised(producer);
                while (goesOn && !stopped) {
                    long began = System.nanoTime();
                    goesOn = transaction(producer, name, number++);
                    pause(pauseNs - (System.nanoTime() - began));
                }
            }
        }
    }

    private KafkaProducer<String, String> producer(String name) {
        Map<String, Object> config =
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "transactional.id", "soak-" + name,
                        "transaction.timeout.ms", 60_000,
                        "max.block.ms", 30_000,
                        "buffer.memory", 4 << 20,
                        "linger.ms", 0);
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private static boolean initialised(KafkaProducer<String, String> producer) {
        try {
            producer.initTransactions();
            return true;
        } catch (KafkaException refused) {
            return false;
        }
    }

    /** One transaction of two records; false where the producer is to be made again. */
    private boolean transaction(KafkaProducer<String, String> producer, String name, int number) {
        try {
            producer.beginTransaction();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int which = 0; which < 2; which++) {
                int partition = (number + which * 5) % partitions;
                String value = name + "/" + number + "/" + which;
                sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        } catch (KafkaException | ExecutionException | InterruptedException refused) {
            told(name, number, 'a');
            return aborted(producer);
        }
        if (number % 10 == 9) {
            told(name, number, 'a');
            return aborted(producer);
        }
        for (int attempt = 0; attempt < COMMITS; attempt++) {
            try {
                producer.commitTransaction();
                told(name, number, 'c');
                return true;
            } catch (TimeoutException unanswered) {
                continue; // may be called again
            } catch (KafkaException refused) {
                break;
            }
        }
        told(name, number, 'u');
        return false;
    }

    private static boolean aborted(KafkaProducer<String, String> producer) {
        try {
            producer.abortTransaction();
            return true;
        } catch (KafkaException refused) {
            return false;
        }
    }

    private static void pause(long nanoseconds) {
        if (nanoseconds > 0) {
            java.util.concurrent.locks.LockSupport.parkNanos(nanoseconds);
        }
    }

    private static synchronized void told(String name, int number, char outcome) {
        System.out.println(name + " " + number + " " + outcome + " 2");
        System.out.flush();
    }
}
