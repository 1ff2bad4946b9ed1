package txnsim.peers;

import java.util.Map;

/** Starts brokers, prints where they are, and never ends: for a test that kills its JVM. */
public final class LastingBrokers {

    private LastingBrokers() { }

    public static void main(String[] arguments) throws InterruptedException {
        System.out.println(new SimulatedBrokers(1, (short) 2, Map.of()).bootstrap());
        Thread.currentThread().join();
    }
}
