package io.txnsim.testcontainers;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** As much of it as can be tried where no containers run. */
class TxnsimContainerTest {
    @SuppressWarnings("resource") // nothing is started
    private final TxnsimContainer container = new TxnsimContainer("txnsim:latest");

    @Test
    void everyBrokerHasAPortAndSoHasTheControlPort() {
        container.withBrokers(2).configure();
        assertArrayEquals(new Integer[] {9092, 9093, 9080}, container.ports());
        assertEquals(List.of(9092, 9093, 9080), container.getExposedPorts());
    }

    @Test
    void whatIsAskedForBecomesVariables() {
        container
                .withBrokers(1)
                .withTopic("orders", 3)
                .withTopic("payments", 1)
                .withTransactionVersion(1)
                .withRelease("3.9")
                .withProperty("transaction.max.timeout.ms", "60000")
                .configure();
        assertEquals(
                Map.of(
                        "TXNSIM_BROKERS", "1",
                        "TXNSIM_PORT", "9092",
                        "TXNSIM_HTTP_PORT", "9080",
                        "TXNSIM_TOKEN", container.getControlToken(),
                        "TXNSIM_TOPICS", "orders:3,payments:1",
                        "TXNSIM_TRANSACTION_VERSION", "1",
                        "TXNSIM_AS_VERSION", "3.9",
                        "KAFKA_TRANSACTION_MAX_TIMEOUT_MS", "60000"),
                container.getEnvMap());
    }

    @Test
    void propertiesAreSpelledAsInTheImageOfKafka() {
        assertEquals("KAFKA_A_B", TxnsimContainer.variableOf("a.b"));
        assertEquals("KAFKA_A__B", TxnsimContainer.variableOf("a_b"));
        assertEquals("KAFKA_A___B_C", TxnsimContainer.variableOf("a-b.c"));
    }

    @Test
    void itWaitsForTheScriptThatKnowsThePorts() {
        assertArrayEquals(
                new String[] {
                    "-c", "while [ ! -f /tmp/txnsim-start.sh ]; do sleep 0.05; done; exec sh /tmp/txnsim-start.sh"
                },
                container.getCommandParts());
    }

    @Test
    void theScriptTellsBrokersTheAddressesThatClientsReach() {
        List<String> addresses = TxnsimContainer.addresses("docker.test", 3, port -> port + 20_000);
        assertEquals(List.of("docker.test:29092", "docker.test:29093", "docker.test:29094"), addresses);
        assertEquals(
                """
                #!/bin/sh
                export TXNSIM_ADVERTISED='docker.test:29092,docker.test:29093,docker.test:29094'
                exec python -m txnsim.testing.container --ready-coordinators
                """,
                TxnsimContainer.script(addresses));
    }

    @Test
    void theReasonOfARefusalIsRead() {
        assertEquals("no \"idle\\\"", TxnsimContainer.reason("{\"error\":\"no \\\"idle\\\\\\\"\",\"never_struck\":[]}"));
        assertEquals("x".repeat(100_000), TxnsimContainer.reason("{\"error\":\"" + "x".repeat(100_000) + "\"}"));
        for (String body : List.of("", "Bad Gateway", "{\"error\":null,\"rules\":[{\"error\":\"NONE\"}]}")) {
            assertEquals(body, TxnsimContainer.reason(body));
        }
    }

    @Test
    void aClusterNeedsABroker() {
        assertThrows(IllegalArgumentException.class, () -> container.withBrokers(0));
    }
}
