package io.txnsim.testcontainers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** A container that runs: {@code python -m tests.image.engine} stands for an engine where there is none. */
@EnabledIfEnvironmentVariable(named = "TXNSIM_TEST_IMAGE", matches = ".+")
class RunningContainerTest {
    @Test
    void aContainerServes() throws IOException, InterruptedException {
        try (TxnsimContainer kafka = new TxnsimContainer(System.getenv("TXNSIM_TEST_IMAGE"))) {
            kafka.withBrokers(2).withTopic("orders", 3).start();
            String health = ask(kafka, "/healthz", kafka.getControlToken()).body();
            assertEquals("{\"status\":\"ok\",\"brokers\":2,\"bootstrap\":\"" + kafka.getBootstrapServers() + "\"}", health);
            for (String address : kafka.getBootstrapServers().split(",")) {
                URI broker = URI.create("kafka://" + address);
                new Socket(broker.getHost(), broker.getPort()).close();
            }
            assertEquals(200, ask(kafka, "/api/v1/topics/orders", kafka.getControlToken()).statusCode());
            assertEquals(401, ask(kafka, "/api/v1/topics/orders", "another-token-than-that").statusCode());
        }
    }

    @Test
    void aFaultThatNeverStruckIsAnErrorAtTheEnd() throws IOException, InterruptedException {
        TxnsimContainer kafka = started();
        armInVain(kafka);
        AssertionError failure = assertThrows(AssertionError.class, kafka::close);
        assertTrue(
                failure.getMessage().startsWith("1 of the faults never struck (idle: 0 crossings matched): compare"),
                failure.getMessage());
        assertFalse(kafka.isCreated());
        kafka.close();
    }

    @Test
    void aTestThatHasFailedKeepsItsOwnFailure() throws IOException, InterruptedException {
        IllegalStateException ownFailure = assertThrows(IllegalStateException.class, () -> {
            try (TxnsimContainer kafka = started()) {
                armInVain(kafka);
                throw new IllegalStateException("of the test");
            }
        });
        assertEquals(1, ownFailure.getSuppressed().length);
    }

    @Test
    void aFaultMayMissWhereThatIsSaid() throws IOException, InterruptedException {
        try (TxnsimContainer kafka = started()) {
            armInVain(kafka.withFaultsMayMiss());
        }
    }

    @Test
    void aContainerThatHasGoneBeforeItsTestIsTold() {
        TxnsimContainer kafka = started();
        kafka.getDockerClient().killContainerCmd(kafka.getContainerId()).exec();
        AssertionError failure = assertThrows(AssertionError.class, kafka::stop);
        assertTrue(failure.getMessage().startsWith("whether every fault has struck can't be asked"), failure.getMessage());
    }

    private static TxnsimContainer started() {
        TxnsimContainer kafka = new TxnsimContainer(System.getenv("TXNSIM_TEST_IMAGE")).withBrokers(1);
        kafka.start();
        return kafka;
    }

    private static void armInVain(TxnsimContainer kafka) throws IOException, InterruptedException {
        String rule = "{\"id\":\"idle\",\"point\":\"client.request\",\"api\":\"EndTxn\",\"action\":{\"do\":\"drop\"}}";
        HttpRequest request = asking(kafka, "/api/v1/faults", kafka.getControlToken())
                .POST(HttpRequest.BodyPublishers.ofString(rule))
                .build();
        assertEquals(201, HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.discarding()).statusCode());
    }

    private static HttpRequest.Builder asking(TxnsimContainer kafka, String path, String token) {
        return HttpRequest.newBuilder(kafka.getControlUri().resolve(path)).header("Authorization", "Bearer " + token);
    }

    private static HttpResponse<String> ask(TxnsimContainer kafka, String path, String token)
            throws IOException, InterruptedException {
        HttpRequest request = asking(kafka, path, token).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }
}
