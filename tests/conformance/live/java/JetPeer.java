import com.hazelcast.function.FunctionEx;
import com.hazelcast.function.SupplierEx;
import com.hazelcast.function.ToLongFunctionEx;
import com.hazelcast.jet.aggregate.AggregateOperation;
import com.hazelcast.jet.aggregate.AggregateOperations;
import com.hazelcast.jet.core.Processor;
import com.hazelcast.jet.core.SlidingWindowPolicy;
import com.hazelcast.jet.core.TimestampKind;
import com.hazelcast.jet.core.Watermark;
import com.hazelcast.jet.core.function.KeyedWindowResultFunction;
import com.hazelcast.jet.core.processor.Processors;
import com.hazelcast.jet.core.test.TestInbox;
import com.hazelcast.jet.core.test.TestOutbox;
import com.hazelcast.jet.core.test.TestProcessorContext;
import com.hazelcast.jet.json.JsonUtil;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Plays cases through the window processors of Hazelcast Jet: each line read is a case, each line written is what came of it.
 *
 * <p>After each record the processor gets the watermark, the highest event time less the grace. Counts and sums are Jet's own,
 * which deduct; other aggregates are the values of a window as a list.
 */
public final class JetPeer {
    private static final int CAPACITY = 1_024;

    private final Map<String, Object> options;

    private JetPeer(Map<String, Object> options) {
        this.options = options;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // what a library prints is no answer
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JsonUtil.toJson(answer(JsonUtil.mapFrom(line))));
            out.flush();
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> answer(Map<String, Object> played) {
        try {
            JetPeer peer = new JetPeer((Map<String, Object>) played.get("options"));
            return Map.of("emitted", peer.play((List<List<Object>>) played.get("records")));
        } catch (Exception error) {
            return Map.of("error", error.toString());
        }
    }

    private List<List<Object>> play(List<List<Object>> records) throws Exception {
        Processor processor = processor().get();
        TestOutbox outbox = new TestOutbox(CAPACITY);
        TestInbox inbox = new TestInbox();
        List<List<Object>> emitted = new ArrayList<>();
        long watermark = Long.MIN_VALUE;
        try {
            processor.init(outbox, new TestProcessorContext());
            for (List<Object> each : records) {
                inbox.add(each);
                processor.process(0, inbox);
                watermark = Math.max(watermark, time(each) - length("grace"));
                emitted.add(closed(processor, outbox, new Watermark(watermark)));
            }
        } finally {
            processor.close();
        }
        return emitted;
    }

    /** The rows that a watermark makes the processor emit. */
    private static List<Object> closed(Processor processor, TestOutbox outbox, Watermark watermark) {
        List<Object> rows = new ArrayList<>();
        boolean ends;
        do {
            ends = processor.tryProcessWatermark(watermark);
            outbox.drainQueueAndReset(0, rows, false);
        } while (!ends);
        rows.removeIf(row -> row instanceof Watermark);
        return rows;
    }

    private SupplierEx<Processor> processor() {
        List<FunctionEx<?, ? extends Object>> keys = List.of((List<Object> each) -> each.get(0));
        List<ToLongFunctionEx<?>> times = List.of((List<Object> each) -> time(each));
        KeyedWindowResultFunction<Object, Object, Object> row =
                (start, end, key, result, early) -> List.of(key, start, end, result);
        return switch ((String) options.get("window")) {
            case "session" -> Processors.aggregateToSessionWindowP(length("gap"), 0, times, keys, aggregate(), row);
            case "hopping" -> windows(keys, times, length("advance"), row);
            case "tumbling" -> windows(keys, times, length("size"), row);
            default -> throw new IllegalArgumentException("no such window: " + options);
        };
    }

    private SupplierEx<Processor> windows(
            List<FunctionEx<?, ? extends Object>> keys,
            List<ToLongFunctionEx<?>> times,
            long advance,
            KeyedWindowResultFunction<Object, Object, Object> row) {
        SlidingWindowPolicy policy =
                SlidingWindowPolicy.slidingWinPolicy(length("size"), advance).withOffset(length("offset"));
        return Processors.aggregateToSlidingWindowP(keys, times, TimestampKind.EVENT, policy, 0, aggregate(), row);
    }

    private AggregateOperation<?, ? extends Object> aggregate() {
        return switch ((String) options.get("aggregate")) {
            case "count" -> AggregateOperations.counting();
            case "sum" -> AggregateOperations.summingDouble((List<Object> each) -> value(each));
            default -> AggregateOperations.mapping((List<Object> each) -> value(each), AggregateOperations.toList());
        };
    }

    private long length(String name) {
        return ((Number) options.getOrDefault(name, 0)).longValue();
    }

    private static long time(List<Object> each) {
        return ((Number) each.get(1)).longValue();
    }

    private static double value(List<Object> each) {
        return ((Number) each.get(2)).doubleValue();
    }
}
