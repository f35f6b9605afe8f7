import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Windows of Kafka Streams from a topic to a topic, exactly once, in RocksDB, with two threads and all else as it is by default.
 *
 * <p>A record's value is "value,sent". A row has the key "key,start,end" and the value "count,sum,sent", where sent is the highest.
 */
public final class StreamsJob {
    private static final Serde<long[]> LONGS = Serdes.serdeFrom(new ToBytes(), new FromBytes());

    private StreamsJob() {}

    /** Arguments: servers, name of the application, folder of the state, input, output, window, its length and grace in ms. */
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", 6000); // the shortest that a broker takes: a killed process is replaced after it
        Duration length = Duration.ofMillis(Long.parseLong(arguments[6]));
        Duration grace = Duration.ofMillis(Long.parseLong(arguments[7]));
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> grouped =
                builder.stream(arguments[3], Consumed.with(Serdes.String(), Serdes.String())).groupByKey();
        table(grouped, arguments[5], length, grace)
                .toStream((window, row) -> window.key() + "," + window.window().start() + "," + window.window().end())
                .mapValues(row -> row == null ? null : row[0] + "," + row[1] + "," + row[2])
                .to(arguments[4], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("RUNNING");
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    private static KTable<Windowed<String>, long[]> table(
            KGroupedStream<String, String> grouped, String window, Duration length, Duration grace) {
        if (window.equals("session")) {
            Materialized<String, long[], SessionStore<Bytes, byte[]>> store = Materialized.with(Serdes.String(), LONGS);
            return grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(length, grace))
                    .aggregate(
                            StreamsJob::empty,
                            StreamsJob::add,
                            (key, one, other) -> new long[] {
                                one[0] + other[0], one[1] + other[1], Math.max(one[2], other[2])
                            },
                            store);
        }
        Materialized<String, long[], WindowStore<Bytes, byte[]>> store = Materialized.with(Serdes.String(), LONGS);
        return grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(length, grace))
                .aggregate(StreamsJob::empty, StreamsJob::add, store);
    }

    private static long[] empty() {
        return new long[3];
    }

    private static long[] add(String key, String record, long[] row) {
        int comma = record.indexOf(',');
        long value = Long.parseLong(record, 0, comma, 10);
        long sent = Long.parseLong(record, comma + 1, record.length(), 10);
        return new long[] {row[0] + 1, row[1] + value, Math.max(row[2], sent)};
    }

    private static final class ToBytes implements Serializer<long[]> {
        @Override
        public byte[] serialize(String topic, long[] row) {
            return row == null
                    ? null
                    : ByteBuffer.allocate(24).putLong(row[0]).putLong(row[1]).putLong(row[2]).array();
        }
    }

    private static final class FromBytes implements Deserializer<long[]> {
        @Override
        public long[] deserialize(String topic, byte[] bytes) {
            if (bytes == null) {
                return null;
            }
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            return new long[] {buffer.getLong(), buffer.getLong(), buffer.getLong()};
        }
    }
}
