package shop;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;

/** A distributed worker of Kafka Connect, as a process that can be killed. */
final class Worker implements AutoCloseable {
    private final Process process;
    private final String url;

    private Worker(Process process, String url) {
        this.process = process;
        this.url = url;
    }

    /** Starts one, with worker.properties and names of this run: workers of one name share work. */
    static Worker start(String bootstrap, String name) throws IOException {
        Properties settings = new Properties();
        try (var common = Worker.class.getResourceAsStream("/worker.properties")) {
            settings.load(common);
        }
        String url = "http://127.0.0.1:" + freePort();
        settings.setProperty("bootstrap.servers", bootstrap);
        settings.setProperty("group.id", name);
        settings.setProperty("config.storage.topic", name + "-configs");
        settings.setProperty("offset.storage.topic", name + "-offsets");
        settings.setProperty("status.storage.topic", name + "-status");
        settings.setProperty("listeners", url);
        Path file = Files.createTempFile("worker-", ".properties");
        try (var out = Files.newBufferedWriter(file)) {
            settings.store(out, null);
        }
        String[] command = {
            ProcessHandle.current().info().command().orElse("java"),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            System.getProperty("java.class.path"),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            file.toString()
        };
        Process process =
                new ProcessBuilder(command)
                        .redirectOutput(Redirect.INHERIT)
                        .redirectError(Redirect.INHERIT)
                        .start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        return new Worker(process, url);
    }

    /** Makes or changes a connector; false while the worker is not there or the group is busy. */
    boolean configure(String connector, Map<String, String> config) throws InterruptedException {
        String json =
                config.entrySet().stream()
                        .map(entry -> "\"%s\":\"%s\"".formatted(entry.getKey(), entry.getValue()))
                        .collect(Collectors.joining(",", "{", "}"));
        var request =
                HttpRequest.newBuilder(URI.create(url + "/connectors/" + connector + "/config"))
                        .header("Content-Type", "application/json")
                        .PUT(BodyPublishers.ofString(json))
                        .build();
        try {
            var answer = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
            if (answer.statusCode() / 100 == 2) {
                return true;
            }
            if (answer.statusCode() == 400) {
                throw new IllegalArgumentException(answer.body());
            }
        } catch (IOException notYet) {
            if (!process.isAlive()) {
                throw new IllegalStateException("the worker ended with " + process.exitValue());
            }
        }
        return false;
    }

    void kill() {
        process.destroyForcibly().onExit().join();
    }

    @Override
    public void close() {
        process.destroy();
        process.onExit().join();
    }

    private static int freePort() throws IOException {
        try (var socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
