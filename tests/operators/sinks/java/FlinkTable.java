import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.CloseableIterator;

/** A topic as a table of Flink, by the statement that docs/kafka.md has. It prints the table, a row a line. */
public final class FlinkTable {
    private FlinkTable() {}

    /** Arguments: the statement that creates the table visits (user, window_start, window_end, then others). */
    public static void main(String[] arguments) throws Exception {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        tables.getConfig().set("parallelism.default", "1");
        tables.executeSql(arguments[0]);
        SortedMap<String, String> rows = new TreeMap<>();
        try (CloseableIterator<Row> changes = tables.executeSql("SELECT * FROM visits").collect()) {
            while (changes.hasNext()) {
                Row row = changes.next();
                String key = List.of(row.getField(0), micros(row, 1), micros(row, 2)).toString();
                if (row.getKind() == RowKind.DELETE || row.getKind() == RowKind.UPDATE_BEFORE) {
                    rows.remove(key);
                } else {
                    rows.put(key, Objects.toString(row.getField(3)));
                }
            }
        }
        rows.forEach((key, value) -> System.out.println(key + "\t" + value));
    }

    private static long micros(Row row, int field) {
        Instant at = (Instant) row.getField(field);
        return at.getEpochSecond() * 1_000_000 + at.getNano() / 1_000;
    }
}
