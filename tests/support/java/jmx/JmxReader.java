import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.TreeSet;
import javax.management.Attribute;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Reads the beans of another JVM of this machine and user, found by its process id: no port has to be opened for it.
 *
 * Each line of standard input is a pattern of object names and, behind tabs, attributes; the answer is one line per
 * bean and attribute that is there (name, attribute, value, between tabs) and an empty line.
 */
public final class JmxReader {
    public static void main(String[] arguments) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(arguments[0]);
        String address = machine.startLocalManagementAgent();
        MBeanServerConnection beans =
            JMXConnectorFactory.connect(new JMXServiceURL(address)).getMBeanServerConnection();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t");
            String[] attributes = Arrays.copyOfRange(words, 1, words.length);
            for (ObjectName name : new TreeSet<>(beans.queryNames(new ObjectName(words[0]), null))) {
                for (Attribute one : beans.getAttributes(name, attributes).asList()) {
                    System.out.println(name + "\t" + one.getName() + "\t" + one.getValue());
                }
            }
            System.out.println();
            System.out.flush();
        }
    }
}
