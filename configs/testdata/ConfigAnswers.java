import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;

/**
 * Prints with which values of each key a broker of Kafka would start: names of keys that answer
 * alike, the values that they take, those that they refuse. Recorded in kafka-answers.tsv:
 *
 *     java -cp 'KAFKA/libs/*' ConfigAnswers.java > kafka-answers.tsv
 *
 * With -v on standard error, what Kafka says.
 */
public class ConfigAnswers {
    private static final String[] TEXTS = {"", " ", "x", "x,y", ",", "x,,y", "x,x", "1", "true"};
    private static final String[] NUMBERS = {
        "", " ", "x", "-3", "-2", "-1", "0", "1", "2", "99", "100", "1000", "100000", "100000000", "1.5", "0.5", " 7 ", "+7",
        "0x10", "1e3", "7L", "NaN", "Infinity", "32768", "2147483648", "9223372036854775808",
    };
    private static final String[] BOOLEANS = {"", " ", "true", "TRUE", " false ", "yes", "1", "0", "on"};

    public static void main(String[] args) {
        boolean verbose = args.length > 0;
        Map<String, List<String>> answers = new LinkedHashMap<>();
        for (ConfigDef.ConfigKey key : new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys()).values()) {
            List<String> taken = new ArrayList<>();
            List<String> refused = new ArrayList<>();
            for (String value : values(key)) {
                try {
                    KafkaConfig.fromProps(settings(key.name, value), false);
                    taken.add(quoted(value));
                } catch (Throwable e) {
                    refused.add(quoted(value));
                    if (verbose) {
                        System.err.println(key.name + "=" + quoted(value) + ": " + e);
                    }
                }
            }
            answers.computeIfAbsent(String.join(" ", taken) + "\t" + String.join(" ", refused), a -> new ArrayList<>()).add(key.name);
        }
        answers.forEach((answer, names) -> System.out.println(String.join(" ", names) + "\t" + answer));
    }

    /** settings of one broker and controller, and one key more. */
    private static Properties settings(String name, String value) {
        Properties p = new Properties();
        p.putAll(Map.of(
            "process.roles", "broker,controller", "node.id", "1",
            "listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names", "CONTROLLER", "controller.quorum.bootstrap.servers", "127.0.0.1:9093"));
        p.put(name, value);
        return p;
    }

    private static Set<String> values(ConfigDef.ConfigKey key) {
        Set<String> values = new LinkedHashSet<>();
        switch (key.type) {
            case BOOLEAN -> values.addAll(List.of(BOOLEANS));
            case INT, LONG, SHORT, DOUBLE -> values.addAll(List.of(NUMBERS));
            default -> values.addAll(List.of(TEXTS));
        }
        if (key.hasDefault() && key.defaultValue != null) {
            values.add(ConfigDef.convertToString(key.defaultValue, key.type));
        }
        if (key.validator == null) {
            return values;
        }
        String valid = key.validator.toString();
        if (key.type == ConfigDef.Type.STRING || key.type == ConfigDef.Type.LIST) {
            Matcher word = Pattern.compile("[A-Za-z0-9_]+").matcher(valid);
            while (word.find()) {
                values.addAll(List.of(word.group(), word.group().toLowerCase(), word.group().toUpperCase()));
            }
        } else {
            Matcher bound = Pattern.compile("-?[0-9]+").matcher(valid);
            while (bound.find()) {
                long n = Long.parseLong(bound.group());
                values.addAll(List.of("" + (n - 1), "" + n, "" + (n + 1)));
            }
        }
        return values;
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
