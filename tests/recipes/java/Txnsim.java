package shop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A cluster for tests: the one that TXNSIM_BOOTSTRAP names, or a process of its own. */
public final class Txnsim implements AutoCloseable {
    private static final long START_S = 60;

    private final String bootstrap;
    private final Process server;

    private Txnsim(String bootstrap, Process server) {
        this.bootstrap = bootstrap;
        this.server = server;
    }

    /** Takes the given cluster, or starts one. */
    public static Txnsim get() {
        String given = System.getenv("TXNSIM_BOOTSTRAP");
        return given != null ? new Txnsim(given, null) : start();
    }

    /** Starts a process with cluster.yaml of the class path, and waits until it accepts. */
    public static Txnsim start() {
        try (var config = Txnsim.class.getResourceAsStream("/cluster.yaml")) {
            Path directory = Files.createTempDirectory("txnsim-");
            Path ready = directory.resolve("ready.json");
            Files.copy(config, directory.resolve("cluster.yaml"));
            String[] command = {
                "txnsim", "serve", "--port", "0", "--config", "cluster.yaml", "--ready-file", "ready.json"
            };
            Process server =
                    new ProcessBuilder(command)
                            .directory(directory.toFile())
                            .redirectOutput(Redirect.DISCARD)
                            .redirectError(Redirect.INHERIT)
                            .start();
            Runtime.getRuntime().addShutdownHook(new Thread(server::destroy));
            return new Txnsim(bootstrapOf(ready, server), server);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    /** For bootstrap.servers. */
    public String bootstrap() {
        return bootstrap;
    }

    @Override
    public void close() {
        if (server != null) {
            server.destroy();
            server.onExit().join();
        }
    }

    /** The file appears in one move, once every listener accepts. */
    private static String bootstrapOf(Path ready, Process server) throws IOException {
        long giveUp = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_S);
        while (!Files.exists(ready)) {
            if (!server.isAlive()) {
                throw new IOException("txnsim serve ended with " + server.exitValue());
            }
            if (System.nanoTime() > giveUp) {
                server.destroy();
                throw new IOException("txnsim serve is not ready in " + START_S + " s");
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(20));
        }
        String json = Files.readString(ready);
        return json.replaceFirst("(?s).*\"bootstrap\"\\s*:\\s*\"([^\"]+)\".*", "$1");
    }
}
