package exam;

import java.io.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.IntStream;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.*;

/** What drivers of programs around the Java client share: commands of a line, and answers of a line (docs/exam.md). */
public final class Contract {
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\":(?:\"([^\"]*)\"|(-?\\d+|true|false)|(\\[\\[.*?]]))");

    private Contract() {}

    /** Carries out a command; the answer's fields, each behind a comma. */
    public interface Library {
        String answer(Map<String, String> command) throws Exception;
    }

    /** Reads commands until they end. */
    public static void serve(Library library) throws IOException {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err); // a library that prints must not write between the answers
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Map<String, String> command = new HashMap<>();
            for (Matcher field = FIELD.matcher(line); field.find(); ) {
                command.put(field.group(1), IntStream.of(2, 3, 4).mapToObj(field::group).filter(Objects::nonNull).findFirst().get());
            }
            String fields;
            try {
                fields = "\"ok\":true" + library.answer(command);
            } catch (Exception raised) {
                fields = "\"ok\":false,\"error\":" + described(raised);
            }
            answers.println("{\"id\":" + command.get("id") + "," + fields + "}");
        }
        Runtime.getRuntime().halt(0); // producers that hang must not keep the process
    }

    /** The answer to describe; the version is that in the name of the library's jar. */
    public static String description(String library, Class<?> ofLibrary) {
        String jar = new File(ofLibrary.getProtectionDomain().getCodeSource().getLocation().getPath()).getName();
        String version = jar.replaceFirst("^.*?-(?=\\d)", "").replace(".jar", "");
        return ",\"contract\":1,\"library\":" + quoted(library) + ",\"language\":\"Java\",\"runtime\":" + quoted("Java " + Runtime.version()) + ",\"version\":" + quoted(version);
    }

    /** What a producer is made of, whatever makes it. */
    public static Map<String, Object> producerSettings(Map<String, String> command) {
        String patience = command.get("patience_ms"), request = command.get("request_timeout_ms");
        return new HashMap<>(Map.of("bootstrap.servers", command.get("bootstrap"), "client.id", command.get("client_id"),
                "transaction.timeout.ms", command.get("transaction_timeout_ms"), "request.timeout.ms", request, "max.block.ms", patience,
                "delivery.timeout.ms", String.valueOf(Math.max(Long.parseLong(patience), 1_000 + Long.parseLong(request)))));
    }

    public static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + '"';
    }

    /** The Java client's error, whatever it was wrapped in; what to do is in the Javadoc of KafkaProducer. */
    private static String described(Throwable raised) {
        Throwable error = raised;
        while (!(error instanceof KafkaException) && error.getCause() != null) {
            error = error.getCause();
        }
        boolean fatal = error instanceof ProducerFencedException || error instanceof OutOfOrderSequenceException || error instanceof AuthorizationException;
        boolean retriable = error instanceof org.apache.kafka.common.errors.TimeoutException;
        String name = error instanceof UnsupportedOperationException ? "UNSUPPORTED_COMMAND" : error.getClass().getSimpleName();
        return String.format("{\"name\":%s,\"class\":%s,\"message\":%s,\"retriable\":%s,\"abortable\":%s,\"fatal\":%s}",
                quoted(name), quoted(error.getClass().getName()), quoted(String.valueOf(error.getMessage())), retriable,
                error instanceof KafkaException && !fatal && !retriable, fatal);
    }
}
