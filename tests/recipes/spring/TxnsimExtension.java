package shop;

import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;

/** One cluster for all test classes; JUnit stops it after the last one. */
public class TxnsimExtension implements BeforeAllCallback {
    @Override
    public void beforeAll(ExtensionContext context) {
        var shared = context.getRoot().getStore(Namespace.create(TxnsimExtension.class));
        Txnsim cluster = shared.computeIfAbsent(Txnsim.class, any -> Txnsim.get(), Txnsim.class);
        System.setProperty("spring.kafka.bootstrap-servers", cluster.bootstrap());
    }
}
