import com.sun.jdi.Bootstrap;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.connect.AttachingConnector;
import com.sun.jdi.connect.Connector;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;

/**
 * Lets threads of another JVM stand still, and lets them go on: lines {@code hold NAME} and
 * {@code release NAME}, where NAME is how the threads' names begin. Each is answered with how many
 * threads there are. At the end of the lines all go on.
 *
 * <p>The argument is the process id. That JVM was started with {@code -agentlib:jdwp}.
 */
public final class ThreadHolder {

    private ThreadHolder() { }

    public static void main(String[] arguments) throws Exception {
        VirtualMachine machine = attach(arguments[0]);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 2);
            int found = 0;
            for (ThreadReference each : machine.allThreads()) {
                if (each.name().startsWith(words[1])) {
                    found++;
                    if (words[0].equals("hold")) {
                        each.suspend();
                    } else {
                        each.resume();
                    }
                }
            }
            System.out.println(found);
        }
        machine.dispose();
    }

    private static VirtualMachine attach(String pid) throws Exception {
        for (AttachingConnector each : Bootstrap.virtualMachineManager().attachingConnectors()) {
            if (each.name().equals("com.sun.jdi.ProcessAttach")) {
                Map<String, Connector.Argument> arguments = each.defaultArguments();
                arguments.get("pid").setValue(pid);
                return each.attach(arguments);
            }
        }
        throw new IllegalStateException("this JDK has no com.sun.jdi.ProcessAttach");
    }
}
