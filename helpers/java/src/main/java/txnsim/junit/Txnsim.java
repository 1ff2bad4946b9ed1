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
 * <p>The cluster is started once for the class and taken back to its start before each test, unless {@link #resets} says no.
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

    /**
     * A system property that has the brokers' addresses before anything of the class is made, as Spring's {@code
     * spring.kafka.bootstrap-servers}; this annotation stands above {@code @SpringBootTest} then.
     */
    String bootstrapServersProperty() default "";

    /**
     * Whether each test meets a fresh cluster. An application that outlives a test, as Spring's context does, would lose its
     * topics in the middle of its work: it says false.
     */
    boolean resets() default true;
}
