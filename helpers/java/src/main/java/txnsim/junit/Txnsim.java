package txnsim.junit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * What to start for the tests of a class; three brokers at {@code transaction.version} 2 unless it says otherwise.
 *
 * <p>The cluster is started once for the class and taken back to its start before each test but the first.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(TxnsimExtension.class)
public @interface Txnsim {
    int brokers() default 3;

    int transactionVersion() default 2;

    /** Topics to create at start, as {@code payments} or {@code payments:3}. */
    String[] topics() default {};

    /** Settings by Kafka's names, as {@code transaction.max.timeout.ms=60000}. */
    String[] settings() default {};

    /** The Kafka release to behave as, for instance {@code 3.9}. */
    String asVersion() default "";
}
