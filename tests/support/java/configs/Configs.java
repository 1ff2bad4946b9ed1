// Tells every config that a release of Apache Kafka knows, a line each.
//
//     java -cp 'libs/*' Configs.java
//
// KIND NAME | type | default | what it may be | internal. Classes that other releases keep elsewhere
// are looked for by name; a kind that is not found is left out.

import java.lang.reflect.Field;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

public class Configs {
    static final String[][] KINDS = {
        {"topic", "org.apache.kafka.storage.internals.log.LogConfig"},
        {"broker", "org.apache.kafka.server.config.AbstractKafkaConfig"},
        {"group", "org.apache.kafka.coordinator.group.GroupConfig"},
        {"producer", "org.apache.kafka.clients.producer.ProducerConfig"},
        {"consumer", "org.apache.kafka.clients.consumer.ConsumerConfig"},
    };

    public static void main(String[] args) throws Exception {
        for (String[] kind : KINDS) {
            ConfigDef found = definition(kind[1]);
            if (found == null)
                continue;
            for (ConfigDef.ConfigKey key : new TreeMap<>(found.configKeys()).values())
                System.out.println(kind[0] + " " + key.name + " | " + key.type + " | "
                    + (key.hasDefault() ? key.defaultValue : "required") + " | "
                    + bounds(key.validator) + " | " + key.internalConfig);
        }
    }

    static ConfigDef definition(String name) throws Exception {
        try {
            for (Field field : Class.forName(name).getDeclaredFields())
                if (ConfigDef.class.isAssignableFrom(field.getType())) {
                    field.setAccessible(true);
                    return (ConfigDef) field.get(null);
                }
        } catch (ClassNotFoundException missing) {
            return null;
        }
        return null;
    }

    static String bounds(ConfigDef.Validator validator) {
        String told = String.valueOf(validator);
        return told.contains("@") || told.contains("Lambda") ? "a rule" : told;
    }
}
