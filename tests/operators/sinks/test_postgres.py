"""What PostgreSQL cannot do, in words; and names, paths and passwords that must lead nowhere else."""

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from operators import DefinitionError
from operators.sinks import PostgresSink, SinkError, upsert_to
from operators.sinks.contract.base import changes, number_of, row
from operators.sinks.interface import Changes


def run(database: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements as the owner of the database, and return the rows of the last one."""
    with psycopg.connect(database) as db:
        for statement in statements:
            done = db.execute(statement.encode())
        return done.fetchall() if done.description else []


@contextmanager
def role(database: str, name: str) -> Iterator[str]:
    """A role without rights, and how to connect as it; what it has been given is taken back."""
    run(database, f"CREATE ROLE {name} LOGIN", f"REVOKE TEMPORARY ON DATABASE {base(database)} FROM PUBLIC")
    try:
        yield f"{database} user={name}"
    finally:
        run(database, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


def base(database: str) -> str:
    """Name of the database."""
    return str(psycopg.conninfo.conninfo_to_dict(database)["dbname"])


@pytest.mark.parametrize(
    ("conninfo", "message"),
    [
        ("jdbc:postgresql://db/web?password=hunter2", "conninfo begins with jdbc:, as the URLs of Java's drivers do"),
        ("mysql://u:hunter2@db/web", "conninfo begins with mysql:, which is not PostgreSQL: give 'host=db"),
        ("postgresql+psycopg://u:hunter2@db/web", r"begins with postgresql\+psycopg:, which is not PostgreSQL"),
        ("postgresql://u:hun@ter2@db/web", "write @ as %40"),
        ("postgresql://u:hun/ter2@db/web", "write @ as %40, : as %3A, / as %2F"),
        ("postgresql://u:12/hunter2@db/web", "not a valid URI"),
        ("postgresql://u:hun%ter2@db/web", "% as %25"),
        ("postgresql://u:hunter2@db:port/web", "not a valid URI"),
        ("host=db password=my hunter2", "write values with spaces in quotes"),
        ("host=db password='hunter2", "a quote as"),
        ("web", "not of the form name=value"),
        (5, "conninfo is of type int, and must be text"),
    ],
)  # fmt: skip
def test_what_is_no_conninfo_is_refused_at_once(conninfo: str, message: str) -> None:
    """And nothing of the password is shown."""
    with pytest.raises(DefinitionError, match=message) as error:
        PostgresSink(conninfo, "t")
    assert not re.search("hun|ter2", str(error.value))


@pytest.mark.parametrize(
    "conninfo",
    [
        "",
        " host = db password='two \\' words' dbname=web",
        "host=/tmp/x user=it's password=",
        "postgresql://",
        "postgres://u:p%40%2Fw@db:5432/web?sslmode=require&options=-c%20a%3Db",
        "postgresql://one:1,[::1]:2,/web?host=/tmp",
    ],
)
def test_conninfo_of_all_forms_is_taken(conninfo: str) -> None:
    """As psycopg takes it."""
    psycopg.conninfo.conninfo_to_dict(conninfo)
    assert conninfo == PostgresSink(conninfo, "t").conninfo


@pytest.mark.parametrize("conninfo", ["host=db hunter2=x", "host=db password=a hunter2=b"])
def test_errors_of_conninfo_show_nothing_of_it(conninfo: str, postgres: str) -> None:
    """The name of an unknown parameter may be a part of a password."""
    with pytest.raises(
        DefinitionError, match="conninfo has a parameter that PostgreSQL does not know"
    ) as error:
        PostgresSink(f"{postgres} {conninfo}", "t").last_batch("one")
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("table", "schema", "message"),
    [
        ("web.visits", "public", r"table is 'web.visits': .*PostgresSink\(..., 'visits', schema='web'\)"),
        ("", "public", "table is '', which is empty"),
        ("t", "", "schema is '', which is empty"),
        ("t\0", "public", "has the character NUL"),
        ("é" * 32, "public", "has 64 bytes: PostgreSQL cuts names after 63"),
        ("t", "x" * 64, "schema is .*has 64 bytes"),
        ("windows_batches", "public", "where the sink keeps the numbers of batches"),
        (5, "public", "table takes a name, not 5"),
    ],
)
def test_names_that_would_lead_elsewhere_are_refused(table: str, schema: str, message: str) -> None:
    """Names that PostgreSQL would cut or refuse, the sink's own table, and a schema in the table's name."""
    with pytest.raises(DefinitionError, match=message):
        PostgresSink("", table, schema)


@pytest.mark.parametrize("name", ["", "x" * 64, "a\0"])
def test_columns_that_postgres_cannot_have_are_named(name: str, database: str) -> None:
    """Of two long names that begin alike it would make one."""
    rows = pa.table({"k": [1], name: [2]})
    with pytest.raises(SinkError, match=f"PostgreSQL cannot have the column {re.escape(repr(name))}, which"):
        PostgresSink(database, "t").write(Changes("one", 0, rows.select(["k"]).slice(0, 0), rows))


@pytest.mark.parametrize(
    ("table", "schema"),
    [("excluded", "public"), ("old", "public"), ("gone", "100%s"), ("%(x)s", "a%b"), ("windows_upserts", "public")],
)  # fmt: skip
def test_awkward_names_of_tables(table: str, schema: str, database: str) -> None:
    """A % is one, and a name that statements use, too, is the user's."""
    run(database, f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    sink = pickle.loads(pickle.dumps(PostgresSink(database, table, schema)))  # noqa: S301 - its own bytes
    for batch in (0, 1, 1):
        sink.check()
        assert (number_of(sink.last_batch("one")) != batch) == sink.write(
            changes(batch, [row("a", n=batch), row(None, n=batch)], [row("b")])
        )
    asked = f'SELECT k, n FROM "{schema}"."{table}" ORDER BY k'  # noqa: S608 - names of the test's own
    assert [("a", 1), (None, 1)] == run(database, asked)


def test_planted_tables_get_nothing(database: str) -> None:
    """With a search path that has others before the temporary tables, a table of their name could take the rows."""
    for name in ("windows_upserts", "windows_deletes"):
        run(database, f"CREATE TABLE {name} (k text, window_start timestamptz, n bigint, x float8)")
    sink = PostgresSink(f"{database} options='-c search_path=public,pg_temp'", "t")
    sink.write(changes(0, [row("a"), row("b")]))
    sink.write(changes(1, [row("a", n=1)], [row("b")]))
    assert [("a", 1)] == run(database, "SELECT k, n FROM t")
    assert [] == run(database, "SELECT 1 FROM windows_upserts UNION ALL SELECT 1 FROM windows_deletes")


def test_a_server_that_is_down_is_found_before_the_query_starts(database: str) -> None:
    """Also a database and a role that do not exist; the message says what the server said."""
    for conninfo, part in {
        "host=/nowhere dbname=web": "No such file or directory",
        f"{database} dbname=nowhere": 'database "nowhere" does not exist',
        f"{database} user=nobody": 'role "nobody" does not exist',
    }.items():
        message = f"PostgreSQL cannot be reached: .*{part}.*Check host, port, dbname and user in conninfo"
        with pytest.raises(SinkError, match=message):
            upsert_to(PostgresSink(conninfo, "t"), keys=["k"])
        with pytest.raises(SinkError, match=message):
            PostgresSink(conninfo, "t").write(changes(0, [row("a")]))


def test_a_client_of_connect_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server writes, and reaches other places."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://server")
    assert ("k",) == upsert_to(PostgresSink("host=/nowhere", "t"), keys=["k"]).keys


def test_a_schema_that_does_not_exist(database: str) -> None:
    """With the statement that makes it."""
    sink = PostgresSink(database, "t", "web")
    with pytest.raises(
        SinkError, match=r"has no schema 'web': give another schema, or run CREATE SCHEMA \"web\""
    ):
        upsert_to(sink, keys=["k"])
    with pytest.raises(SinkError, match=r"has no schema 'web'"):
        sink.write(changes(0, [row("a")]))


def test_missing_rights_are_told_with_the_statements_that_give_them(database: str) -> None:
    """All that can be known at a time; the statements, run as they are, are enough for the next step."""
    run(database, "CREATE SCHEMA web")
    seen = []
    with role(database, "writer_of_tests") as conninfo:
        sink = PostgresSink(conninfo, "t", "web")
        for _ in range(3):
            try:
                upsert_to(sink, keys=["k"])
            except SinkError as error:
                with pytest.raises(SinkError, match=re.escape(str(error))):
                    sink.write(changes(0, [row("a")]))
                seen.append(str(error).partition("as their owner, run ")[2].split("; "))
                run(database, *seen[-1])
        assert [
            [
                f'GRANT TEMPORARY ON DATABASE "{base(database)}" TO "writer_of_tests"',
                'GRANT USAGE, CREATE ON SCHEMA "web" TO "writer_of_tests"',
            ]
        ] == seen
        assert sink.write(changes(0, [row("a")]))
        run(
            database, *(f"REVOKE ALL ON web.{name} FROM writer_of_tests" for name in ("t", "windows_batches"))
        )
        run(database, "REASSIGN OWNED BY writer_of_tests TO windows")
        with pytest.raises(SinkError) as failed:
            sink.write(changes(1, [row("a")]))
        statements = str(failed.value).partition("as their owner, run ")[2].split("; ")
        assert [
            'GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE "web"."t" TO "writer_of_tests"',
            'GRANT SELECT, INSERT, UPDATE ON TABLE "web"."windows_batches" TO "writer_of_tests"',
        ] == statements
        run(database, *statements)
        assert sink.write(changes(1, [row("b")], [row("a")]))


def test_rights_on_columns_are_enough(database: str) -> None:
    """Where a role has them in the place of rights on the table."""
    owner = PostgresSink(database, "t")
    owner.write(changes(0, [row("a")]))
    with role(database, "writer_of_columns") as conninfo:
        run(
            database,
            f"GRANT TEMPORARY ON DATABASE {base(database)} TO writer_of_columns",
            "GRANT SELECT (k, window_start, n, x), INSERT (k, window_start, n, x), UPDATE (n, x), DELETE ON t "
            "TO writer_of_columns",
            "GRANT SELECT, INSERT, UPDATE ON windows_batches TO writer_of_columns",
        )
        sink = PostgresSink(conninfo, "t")
        sink.check()
        assert sink.write(changes(0, [row("a", n=1)], [row("b")], query="two"))


def test_a_column_of_another_type_is_named(database: str) -> None:
    """With both types and the statement that changes it."""
    run(
        database,
        "CREATE TABLE t (k text, window_start timestamptz, n date, x float8, UNIQUE (k, window_start))",
    )
    sink = PostgresSink(database, "t")
    with pytest.raises(SinkError) as failed:
        sink.write(changes(3, [row("a", n=5)]))
    assert re.fullmatch(
        r"PostgreSQL refused batch 3 of query 'one' for the table \"public\".\"t\": invalid input syntax for type "
        r"date: \"5\". The table has other types than the rows: 'n' is date, and bigint in the rows: cast it in the "
        r"rows, or run ALTER TABLE \"public\".\"t\" ALTER COLUMN \"n\" TYPE bigint",
        str(failed.value),
    )


def test_other_refusals_are_told_as_they_are(database: str) -> None:
    """A constraint of the user's own, and a connection that ends."""
    run(
        database,
        "CREATE TABLE t (k text, window_start timestamptz, n int CHECK (n < 5), x float8, note text)",
    )
    run(database, "ALTER TABLE t ADD UNIQUE (k, window_start)")
    sink = PostgresSink(database, "t")
    with pytest.raises(SinkError, match=r'refused batch 0 of .*violates check constraint "t_n_check"$'):
        sink.write(changes(0, [row("a", n=5)]))
    run(database, "ALTER TABLE t ALTER note SET NOT NULL")
    with pytest.raises(SinkError, match=r'null value in column "note"'):
        sink.write(changes(0, [row("a")]))
    run(
        database,
        "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'",
        "CREATE TRIGGER stop BEFORE INSERT ON t EXECUTE FUNCTION stop()",
    )
    with pytest.raises(SinkError, match=r"terminating connection .*Start the query again: nothing is lost"):
        sink.write(changes(0, [row("a")]))


def test_a_key_that_is_too_long_for_an_index_is_told(database: str) -> None:
    """To start again would not help."""
    text = "".join(map(chr, range(1_000, 7_000)))
    with pytest.raises(SinkError, match=r"refused batch 0 .*index row requires \d+ bytes"):
        PostgresSink(database, "t").write(changes(0, [row(text)]))


def test_composed_names_are_quoted_as_elsewhere(database: str) -> None:
    """The names in messages are those that psycopg writes."""
    with psycopg.connect(database) as db:
        for name in ("t", 'a"b', "a b"):
            shown = PostgresSink(database, name, name)._database()._shown
            assert sql.Identifier(name, name).as_string(db) == shown
