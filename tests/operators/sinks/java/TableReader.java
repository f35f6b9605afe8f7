import java.util.Properties;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** A topic as a KTable of Kafka Streams, by the configuration that docs/kafka.md has. It prints the table, a row a line. */
public final class TableReader {
    private TableReader() {}

    /** Arguments: servers, topic, folder of the state, and how many rows of the table begin with which text once it is read. */
    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "reader-of-" + arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> store = Materialized.as("table");
        builder.table(arguments[1], store.withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            while (streams.state() != KafkaStreams.State.RUNNING) {
                if (streams.state().hasCompletedShutdown()) {
                    throw new IllegalStateException("it ended: " + streams.state());
                }
                Thread.sleep(20);
            }
            SortedMap<String, String> rows = rows(streams);
            while (rows.keySet().stream().filter(key -> key.startsWith(arguments[4])).count()
                    < Long.parseLong(arguments[3])) {
                Thread.sleep(20);
                rows = rows(streams);
            }
            rows.forEach((key, value) -> System.out.println(key + "\t" + value));
        }
    }

    private static SortedMap<String, String> rows(KafkaStreams streams) {
        ReadOnlyKeyValueStore<String, String> table =
                streams.store(StoreQueryParameters.fromNameAndType("table", QueryableStoreTypes.keyValueStore()));
        SortedMap<String, String> rows = new TreeMap<>();
        try (KeyValueIterator<String, String> all = table.all()) {
            while (all.hasNext()) {
                KeyValue<String, String> row = all.next();
                rows.put(row.key, row.value);
            }
        }
        return rows;
    }
}
