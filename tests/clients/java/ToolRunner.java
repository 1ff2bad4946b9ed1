import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, as if each had one of its own.
 *
 * <p>Every line of stdin is an object with {@code main}, {@code args} and {@code stdin}; every line of stdout one with
 * {@code code}, {@code stdout} and {@code stderr}. A tool that asks for its exit gets an error thrown; what it prints after
 * that is lost, as it would be, but for its shutdown hooks. Static state does not outlive a tool: its classes are loaded
 * anew each time.
 */
public final class ToolRunner {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Redirect OUT = new Redirect();
    private static final Redirect ERR = new Redirect();

    private ToolRunner() {}

    public static void main(String[] args) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Once and for all, as a class may keep the stream that it has found first.
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            List<String> words = new ArrayList<>();
            request.get("args").forEach(word -> words.add(word.asText()));
            int code = run(request.get("main").asText(), words.toArray(new String[0]), request.get("stdin").asText());
            answers.println(
                    JSON.writeValueAsString(Map.of("code", code, "stdout", OUT.taken(), "stderr", ERR.taken())));
        }
    }

    private static int run(String main, String[] words, String input) throws Exception {
        List<Runnable> hooks = new ArrayList<>();
        Exited exit = new Exited();
        InvocationHandler leave = (proxy, method, said) -> exit.with((int) said[0]);
        atExit("setExitProcedure", leave);
        atExit("setHaltProcedure", leave);
        atExit("setShutdownHookAdder", (proxy, method, said) -> {
            hooks.add((Runnable) said[1]);
            return null;
        });
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        ClassLoader own = Thread.currentThread().getContextClassLoader();
        ClassLoader fresh = new ToolLoader(own);
        Thread.currentThread().setContextClassLoader(fresh);
        try {
            Class.forName(main, true, fresh).getMethod("main", String[].class).invoke(null, (Object) words);
            exit.note(0);
        } catch (InvocationTargetException failure) {
            if (!exit.asked()) {
                failure.getCause().printStackTrace();
                exit.note(1);
            }
        } finally {
            OUT.open();
            ERR.open();
            hooks.forEach(Runnable::run); // as at the end of a JVM, and what they print is seen
            Thread.currentThread().setContextClassLoader(own);
        }
        return exit.code;
    }

    /** Sets one of the procedures of Kafka's {@code Exit}, which was moved in 4.4. */
    private static void atExit(String setter, InvocationHandler handler) throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        for (Method method : exit.getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(null, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
            }
        }
    }

    /** The end that a tool asked for; the first one counts. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;
        private Integer code;

        Exited() {
            super("exit", null, false, false);
        }

        boolean asked() {
            return code != null;
        }

        void note(int wanted) {
            if (code == null) {
                code = wanted;
                OUT.close();
                ERR.close();
            }
        }

        Object with(int wanted) {
            note(wanted);
            throw this;
        }
    }

    /** Where a stream goes at the moment: into memory, until the tool is over. */
    private static final class Redirect extends OutputStream {
        private final ByteArrayOutputStream written = new ByteArrayOutputStream();
        private boolean open = true;

        @Override
        public synchronized void write(int one) {
            if (open) {
                written.write(one);
            }
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int length) {
            if (open) {
                written.write(bytes, from, length);
            }
        }

        @Override
        public synchronized void close() {
            open = false;
        }

        synchronized void open() {
            open = true;
        }

        synchronized String taken() {
            String text = written.toString(StandardCharsets.UTF_8);
            written.reset();
            return text;
        }
    }

    /** Loads the classes of tools itself and leaves all others to its parent. */
    private static final class ToolLoader extends ClassLoader {
        private static final List<String> OWN = List.of("org.apache.kafka.tools.", "kafka.admin.");

        ToolLoader(ClassLoader parent) {
            super(parent);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (OWN.stream().noneMatch(name::startsWith)) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded != null ? loaded : define(name);
            }
        }

        private Class<?> define(String name) throws ClassNotFoundException {
            try (InputStream file = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
                if (file == null) {
                    throw new ClassNotFoundException(name);
                }
                byte[] bytes = file.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException failure) {
                throw new ClassNotFoundException(name, failure);
            }
        }
    }
}
