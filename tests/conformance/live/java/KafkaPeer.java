import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.common.utils.Bytes;

/**
 * Plays cases through Kafka Streams: each line read is a case, each line written is what came of it.
 *
 * <p>Aggregates are the values of a window as a list, so that it shows which record a window has lost or gained.
 */
public final class KafkaPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Longer than all of a case: with the default, windows can expire before they are emitted on close. */
    private static final Duration RETENTION = Duration.ofDays(7);

    private final JsonNode options;
    private final ArrayNode rows = JSON.createArrayNode();

    private KafkaPeer(JsonNode options) {
        this.options = options;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // what a library prints is no answer
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            out.flush();
        }
    }

    private static ObjectNode answer(JsonNode played) {
        try {
            return new KafkaPeer(played.get("options")).play(played.get("records"));
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return JSON.createObjectNode().put("error", cause.toString());
        }
    }

    private ObjectNode play(JsonNode records) {
        ArrayNode emitted = JSON.createArrayNode();
        ArrayNode late = JSON.createArrayNode();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology(), settings())) {
            var input = driver.createInputTopic("records", new StringSerializer(), new StringSerializer());
            double dropped = 0;
            for (int number = 0; number < records.size(); number++) {
                JsonNode record = records.get(number);
                input.pipeInput(record.get(0).asText(), record.get(2).asText(), record.get(1).asLong());
                emitted.add(rows.deepCopy());
                rows.removeAll();
                double now = dropped(driver);
                if (now > dropped) {
                    late.add(number);
                }
                dropped = now;
            }
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.set("emitted", emitted);
        answer.set("late", late);
        return answer;
    }

    private static double dropped(TopologyTestDriver driver) {
        return driver.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("dropped-records-total"))
                .mapToDouble(metric -> (Double) metric.getValue().metricValue())
                .sum();
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        // Windows are emitted with the record that closes them, not once a second by the wall clock.
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        return settings;
    }

    private Topology topology() {
        StreamsBuilder builder = new StreamsBuilder();
        var grouped = builder.stream("records", Consumed.with(Serdes.String(), Serdes.String())).groupByKey();
        EmitStrategy emit = options.get("emit").asText().equals("on_close")
                ? EmitStrategy.onWindowClose()
                : EmitStrategy.onWindowUpdate();
        KTable<Windowed<String>, String> table = options.get("window").asText().equals("session")
                ? sessions(grouped, emit)
                : windows(grouped).emitStrategy(emit).aggregate(() -> "", KafkaPeer::append, windowStore());
        table.toStream().foreach(this::collect);
        return builder.build();
    }

    private KTable<Windowed<String>, String> sessions(KGroupedStream<String, String> grouped, EmitStrategy emit) {
        Materialized<String, String, SessionStore<Bytes, byte[]>> store =
                Materialized.with(Serdes.String(), Serdes.String());
        return grouped
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(length("gap"), length("grace")))
                .emitStrategy(emit)
                .aggregate(() -> "", KafkaPeer::append, KafkaPeer::append, store
                        .withStoreType(BuiltInDslStoreSuppliers.IN_MEMORY)
                        .withRetention(RETENTION));
    }

    private TimeWindowedKStream<String, String> windows(KGroupedStream<String, String> grouped) {
        Duration size = length("size");
        Duration grace = length("grace");
        return switch (options.get("window").asText()) {
            case "sliding" -> grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(size, grace));
            case "hopping" -> grouped.windowedBy(
                    TimeWindows.ofSizeAndGrace(size, grace).advanceBy(length("advance")));
            case "tumbling" -> grouped.windowedBy(TimeWindows.ofSizeAndGrace(size, grace));
            default -> throw new IllegalArgumentException("no such window: " + options);
        };
    }

    private Materialized<String, String, WindowStore<Bytes, byte[]>> windowStore() {
        Materialized<String, String, WindowStore<Bytes, byte[]>> store =
                Materialized.with(Serdes.String(), Serdes.String());
        return store.withStoreType(BuiltInDslStoreSuppliers.IN_MEMORY).withRetention(RETENTION);
    }

    private Duration length(String name) {
        return Duration.ofMillis(options.get(name).asLong());
    }

    /** The values of a window and one more, or those of two sessions. */
    private static String append(String key, String more, String values) {
        return values.isEmpty() || more.isEmpty() ? values + more : values + "," + more;
    }

    private void collect(Windowed<String> window, String values) {
        ArrayNode row = rows.addArray().add(window.key()).add(window.window().start()).add(window.window().end());
        if (values == null) {
            row.addNull();
            return;
        }
        ArrayNode list = row.addArray();
        for (String value : values.split(",")) {
            list.add(Double.parseDouble(value));
        }
    }
}
