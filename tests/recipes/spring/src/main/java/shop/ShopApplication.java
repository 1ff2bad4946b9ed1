package shop;

import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.stereotype.Component;

/** Orders in, receipts out: each order is one transaction, with the position behind it. */
@SpringBootApplication
public class ShopApplication {
    public static void main(String[] args) {
        SpringApplication.run(ShopApplication.class, args);
    }

    @Bean
    NewTopic orders() {
        return TopicBuilder.name("orders").partitions(3).build();
    }

    @Bean
    NewTopic receipts() {
        return TopicBuilder.name("receipts").partitions(3).build();
    }

    /** What is outside of Kafka, and may fail. */
    interface Notifier {
        void receiptWritten(String order);
    }

    @Component
    static class ReceiptService {
        private final KafkaTemplate<String, String> kafka;
        private final Notifier notifier;

        ReceiptService(KafkaTemplate<String, String> kafka, Notifier notifier) {
            this.kafka = kafka;
            this.notifier = notifier;
        }

        /** Runs in the transaction that the listener container has begun. */
        @KafkaListener(id = "receipts", topics = "orders", idIsGroup = false)
        void write(ConsumerRecord<String, String> order) {
            kafka.send("receipts", order.key(), "receipt of " + order.value()).join();
            notifier.receiptWritten(order.value());
        }
    }
}
