// Prints every config of brokers, topics, groups and client metrics that a release of Apache Kafka knows, a line of JSON each: name, type, default (null:
// none), whether it is required, validator, importance, whether it is internal, and how it can be updated. Classes moved
// from Scala to Java between releases, so each is looked for under all of its names.
//
//     java -cp 'libs/*' KafkaSettings.java
//
// The releases' words on what a config does are left out: txnsim has its own.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

public class KafkaSettings {
    static final String[] DYNAMIC = {
        "org.apache.kafka.server.config.DynamicBrokerConfig", "kafka.server.DynamicBrokerConfig",
    };
    static final Map<String, String[]> OWNERS = Map.of(
        "broker", new String[] {"org.apache.kafka.server.config.AbstractKafkaConfig", "kafka.server.KafkaConfig$"},
        "topic", new String[] {"org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig$"},
        "group", new String[] {"org.apache.kafka.coordinator.group.GroupConfig"},
        "client-metrics", new String[] {"org.apache.kafka.server.metrics.ClientMetricsConfigs"});

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        Map<String, String> modes = updateModes();
        for (String scope : new TreeMap<>(OWNERS).keySet()) {
            ConfigDef definition = definition(OWNERS.get(scope));
            if (definition == null)
                continue;
            for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("scope", scope);
                row.put("name", key.name);
                row.put("type", key.type.name());
                row.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
                row.put("required", !key.hasDefault());
                row.put("valid", bounds(key.validator));
                row.put("importance", key.importance.name());
                row.put("internal", isInternal(key));
                if (scope.equals("broker")) {
                    row.put("update", modes.getOrDefault(key.name, "read-only"));
                    row.put("synonyms", synonyms(key.name));
                }
                System.out.println(mapper.writeValueAsString(row));
            }
        }
    }

    /** The definition of the first class that there is: a static field, or what an object of Scala makes; null: none. */
    static ConfigDef definition(String[] owners) throws Exception {
        for (String name : owners) {
            Class<?> owner;
            try {
                owner = Class.forName(name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
            for (Field field : owner.getDeclaredFields())
                if (ConfigDef.class.isAssignableFrom(field.getType()) && Modifier.isStatic(field.getModifiers())
                    && !field.getName().startsWith("SERVER")) { // LogConfig has a part of the brokers' as well
                    field.setAccessible(true);
                    return (ConfigDef) field.get(null);
                }
            for (Method method : owner.getMethods()) // private ones of Scala have long names
                if (method.getName().endsWith("configDef"))
                    return (ConfigDef) method.invoke(owner.getField("MODULE$").get(null));
        }
        return null;
    }

    static boolean isInternal(ConfigDef.ConfigKey key) throws Exception {
        try {
            return key.getClass().getField("internalConfig").getBoolean(key);
        } catch (NoSuchFieldException older) {
            return false;
        }
    }

    static Object askDynamic(String method, Object... arguments) throws Exception {
        for (String owner : DYNAMIC)
            for (String suffix : new String[] {"", "$"})
                try {
                    Class<?> dynamic = Class.forName(owner + suffix);
                    for (Method candidate : dynamic.getMethods())
                        if (candidate.getName().equals(method))
                            return candidate.invoke(
                                suffix.isEmpty() ? null : dynamic.getField("MODULE$").get(null), arguments);
                } catch (ClassNotFoundException elsewhere) {
                    continue;
                }
        throw new IllegalStateException("no class has " + method);
    }

    static Map<String, String> updateModes() throws Exception {
        Object told = askDynamic("dynamicConfigUpdateModes");
        Map<String, String> modes = new HashMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) told).entrySet())
            modes.put((String) entry.getKey(), (String) entry.getValue());
        return modes;
    }

    static List<String> synonyms(String name) throws Exception {
        Object told = askDynamic("brokerConfigSynonyms", name, false);
        if (told instanceof List<?> list)
            return list.stream().map(String::valueOf).toList();
        String text = String.valueOf(told); // a list of Scala: List(a, b)
        return new ArrayList<>(Arrays.asList(text.substring(text.indexOf('(') + 1, text.length() - 1).split(", ")));
    }

    static String bounds(ConfigDef.Validator validator) {
        if (validator == null)
            return null;
        String told = validator.toString();
        return told.contains("@") || told.contains("Lambda") ? "rule of " + validator.getClass().getName() : told;
    }
}
