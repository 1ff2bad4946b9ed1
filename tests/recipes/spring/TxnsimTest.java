package shop;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.junit.jupiter.api.Test;

class TxnsimTest {
    @Test
    void aProcessOfItsOwnHasThreeBrokers() throws Exception {
        try (var cluster = Txnsim.start();
                var admin = Admin.create(Map.of("bootstrap.servers", cluster.bootstrap()))) {
            assertThat(admin.describeCluster().nodes().get()).hasSize(3);
        }
    }
}
