package shop;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Orders in, receipts out; what is between two checkpoints is one transaction per writer. */
record ReceiptJob(String bootstrap, String name, String orders, String receipts) {
    void define(StreamExecutionEnvironment flink, MapFunction<String, String> writeReceipt) {
        KafkaSource<String> source =
                KafkaSource.<String>builder()
                        .setBootstrapServers(bootstrap)
                        .setGroupId(name)
                        .setTopics(orders)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setProperty("isolation.level", "read_committed")
                        .setValueOnlyDeserializer(new SimpleStringSchema())
                        .build();
        KafkaSink<String> sink =
                KafkaSink.<String>builder()
                        .setBootstrapServers(bootstrap)
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(name)
                        // Flink's default is an hour, which a broker refuses: its most is 15 minutes.
                        .setProperty("transaction.timeout.ms", "600000")
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.<String>builder()
                                        .setTopic(receipts)
                                        .setValueSerializationSchema(new SimpleStringSchema())
                                        .build())
                        .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
                .map(writeReceipt)
                .sinkTo(sink);
    }
}
