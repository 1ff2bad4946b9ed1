package io.txnsim.testcontainers;

import static org.junit.jupiter.api.Assertions.assertEquals;

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
            String told = ask(kafka, "/healthz", kafka.getControlToken()).body();
            assertEquals("{\"status\":\"ok\",\"brokers\":2,\"bootstrap\":\"" + kafka.getBootstrapServers() + "\"}", told);
            for (String address : kafka.getBootstrapServers().split(",")) {
                URI broker = URI.create("kafka://" + address);
                new Socket(broker.getHost(), broker.getPort()).close();
            }
            assertEquals(200, ask(kafka, "/api/v1/topics/orders", kafka.getControlToken()).statusCode());
            assertEquals(401, ask(kafka, "/api/v1/topics/orders", "another-token-than-that").statusCode());
        }
    }

    private static HttpResponse<String> ask(TxnsimContainer kafka, String path, String token)
            throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(kafka.getControlUri().resolve(path))
                .header("Authorization", "Bearer " + token)
                .build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }
}
