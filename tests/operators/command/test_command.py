"""What the command does without Spark: arguments, errors as one line, what an operator is in words, tables and numbers."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from operators import HoppingWindows, RollingWindows, SessionWindows, SlidingWindows, TumblingWindows
from operators import aggregates as agg
from operators.command.arguments import parser
from operators.command.errors import one_line
from operators.command.main import main
from operators.command.text.formats import byte_text, json_text, moment, plain
from operators.command.text.output import complain, say, say_each
from operators.command.text.tables import arrow_table
from operators.command.text.words import facts, title
from operators.errors import WorkerError
from operators.explain.explanation import Explanation
from state_backends import StateError, resolve
from tests.operators.custom.samples import Echo

ROOT = Path(__file__).parents[3]
SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64())])
JOB = """
from operators import SlidingWindows, aggregates as agg

class jobs:
    op = SlidingWindows("1 minute").group_by("k").aggregate(n=agg.count())
number = 3
"""


def failed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command prints that fails: one line."""
    assert 1 == main([*map(str, arguments)])
    printed = capsys.readouterr()
    assert "" == printed.out
    assert printed.err.startswith("windows: error: ")
    assert [printed.err] == printed.err.splitlines(keepends=True)
    return printed.err.removeprefix("windows: error: ").rstrip()


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With what it does."""
    with pytest.raises(SystemExit) as error:
        main(["--help"])
    assert 0 == error.value.code
    found = capsys.readouterr().out
    for name in ("summary", "state", "windows", "savepoint", "explain", "report"):
        assert f"\n    {name}" in found


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["summary"],
        ["state", "c", "--limit", "0"],
        ["state", "c", "--batch", "-1"],
        ["state", "c", "--json", "--out", "x.csv"],
        ["windows", "c", "--event-time", "at", "--schema", "k string"],
        ["windows", "c", "--operator", "m:op", "--event-time", "at"],
        ["summary", "c", "--conf", "spark.driver.memory"],
        ["report", "c"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """And with the usage."""
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert 2 == error.value.code
    assert capsys.readouterr().err.startswith("usage: windows")


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Is named before Spark starts."""
    for command in ("summary", "state"):
        message = failed(capsys, command, tmp_path / "none")
        assert (
            f"there is no folder {tmp_path}/none: give the checkpoint folder of a query that has run"
            == message
        )


def test_a_file_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is refused before anything is read, so before Spark starts, by every command that writes one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("a_job_to_write.py").write_text(JOB)
    Path("folder.csv").mkdir()
    windows = ["--operator", "a_job_to_write:jobs.op", "--schema", "k string", "--event-time", "at"]
    for command, rest in (("state", []), ("windows", windows)):
        for out, message in {
            "panes.xls": "panes.xls is of an unknown format: known are .parquet, .json",
            "no/panes.csv": f"there is no folder {tmp_path}/no: create it, or give --out another file",
            "folder.csv": "folder.csv is a folder: give --out a file",
        }.items():
            assert failed(capsys, command, tmp_path, *rest, "--out", out).startswith(message)
    assert "folder.csv is a folder" in failed(capsys, "report", tmp_path, "--out", "folder.csv")
    assert {"a_job_to_write.py", "folder.csv"} == {path.name for path in tmp_path.iterdir()} - {"__pycache__"}


def test_a_file_of_columns_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is missed before Spark starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("a_job_with_columns.py").write_text(JOB)
    Path("columns.xls").write_text("")
    name = "a_job_with_columns:jobs.op"
    for like, message in {
        "none.csv": "there is no file none.csv: give --like a file with the columns, or --schema",
        "columns.xls": "columns.xls is of an unknown format: known are",
    }.items():
        rest = ["--like", like, "--event-time", "at"]
        assert failed(capsys, "windows", tmp_path, "--operator", name, *rest).startswith(message)
        assert failed(capsys, "explain", name, *rest).startswith(message)


@pytest.mark.parametrize("metadata", ['{"id": 5}', '{"id": ["x"]}', '["id"]', '{"id": "x'])
def test_a_query_whose_id_is_no_text(
    metadata: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its description is damaged, which is said."""
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (tmp_path / "metadata").write_text(metadata)
    for command in (["summary"], ["report", "--out", tmp_path / "page.html"]):
        message = failed(capsys, command[0], tmp_path, *command[1:])
        assert message.startswith(f"Spark's file metadata in the checkpoint {tmp_path} is ")
        assert "write_savepoint(checkpoint, folder)" in message


def test_a_savepoint_that_is_there_already(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Is found before Spark starts."""
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "savepoint.json").write_text("{}")
    message = failed(capsys, "savepoint", tmp_path, tmp_path / "saved")
    assert f"the folder {tmp_path}/saved already contains a savepoint: choose a new folder" == message


def test_a_folder_that_is_no_checkpoint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Is found out without Spark, too."""
    message = failed(capsys, "report", tmp_path, "--out", tmp_path / "page.html")
    assert f"the state in {tmp_path} cannot be read: no batch was committed." in message
    assert f"there is no folder {tmp_path}/no" in failed(
        capsys, "report", tmp_path, "--out", tmp_path / "no/page.html"
    )


def test_an_operator_that_cannot_be_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is said: the module, the name in it, or that it is no operator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("a_job_of_tests.py").write_text(JOB)
    Path("a_broken_job.py").write_text("import a_package_that_nobody_has")
    rest = ["--schema", "k string, at timestamp", "--event-time", "at"]
    for name, part in {
        "op": "the operator is 'op': give a module and a name in it",
        "no_such_module:op": "there is no module no_such_module: call the command in the folder that has it",
        "a_broken_job:op": "cannot be imported: No module named 'a_package_that_nobody_has'",
        "a_job_of_tests:other": "the module a_job_of_tests has no 'other'",
        "a_job_of_tests:number": "a_job_of_tests:number is a int, not an operator",
    }.items():
        assert part in failed(capsys, "explain", name, *rest)


def test_explain_needs_no_spark_for_a_parquet_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints what `explain` prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("another_job_of_tests.py").write_text(JOB)
    pq.write_table(SCHEMA.empty_table(), "like.parquet")
    assert 0 == main(
        ["explain", "another_job_of_tests:jobs.op", "--like", "like.parquet", "--event-time", "at"]
    )
    op = SlidingWindows("1 minute").group_by("k").aggregate(n=agg.count())
    assert f"{Explanation.of(op, SCHEMA, 'at')}\n" == capsys.readouterr().out
    message = failed(
        capsys, "explain", "another_job_of_tests:jobs.op", "--like", "like.parquet", "--event-time", "b"
    )
    assert "event_time" in message or "'b'" in message


def test_explain_refuses_a_checkpoint_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before Spark starts, and before the operator is looked for."""
    given = ("no_such_module:op", "--schema", "k string", "--event-time", "at")
    message = failed(capsys, "explain", *given, "--checkpoint", tmp_path / "gone")
    assert (
        message == f"there is no folder {tmp_path}/gone: give the checkpoint folder of a query that has run"
    )


def test_errors_are_one_line() -> None:
    """Errors of workers are those that were raised there; of others than this library's, the class is named."""
    trace = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise KeyError\nKeyError: 1\n\n'
        'During handling\n\nTraceback (most recent call last):\n  File "x.py", line 2, in g\n    raise y\n'
        "serializers.errors.CorruptDataError: the blob 'log-3' is damaged:\n  restore it\n\n"
        "JVM stacktrace:\norg.apache.spark.Error\n\tat org.apache.spark.A.b(A.scala:1)"
    )
    assert "the blob 'log-3' is damaged: restore it" == one_line(RuntimeError(trace))
    java = (
        "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b.C(D.scala:1)\n"
        "Caused by: a.Outer: no\n\tat a.b.C(D.scala:2)\nCaused by: java.io.FileNotFoundException: File x is gone\n\t... 4 more"
    )
    assert "Spark failed: FileNotFoundException: File x is gone. Give --traceback for where" == one_line(
        RuntimeError(java)
    )
    assert "a state: of two lines" == one_line(StateError("a state:\n   of two lines"))
    assert "KeyError: 'x'. Give --traceback for where it was raised" == one_line(KeyError("x"))
    assert "bucket 1: no" == one_line(RuntimeError(f"{WorkerError.__name__}: bucket 1: no\n  at a.b.C("))


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        (TumblingWindows("90 seconds"), "tumbling windows of 1 min 30 s"),
        (HoppingWindows("1 hour", "5 minutes"), "hopping windows of 1 h every 5 min"),
        (SlidingWindows("1 day"), "sliding windows of 1 d"),
        (SessionWindows("10 minutes"), "session windows with a gap of 10 min"),
        (
            SessionWindows("10 minutes", max_length="1 hour"),
            "session windows with a gap of 10 min, 1 h long at most",
        ),
        (
            RollingWindows({"d": "1 day", "ever": "lifetime"}),
            "rolling windows of up to 1 d and the lifetime of a key",
        ),
        (TumblingWindows("1 day", zone="Europe/Berlin"), "tumbling windows of 1 day in Europe/Berlin"),
        (
            TumblingWindows("1 day", zone="Europe/Berlin", offset="6 hours"),
            "tumbling windows of 1 day from 06:00 in Europe/Berlin",
        ),
        (TumblingWindows("7 days", zone="UTC"), "tumbling windows of 7 days in UTC"),
        (HoppingWindows("2 weeks", "1 week", zone="UTC"), "hopping windows of 2 weeks every 1 week in UTC"),
        (
            TumblingWindows("1 week", zone="UTC", offset="-1 day"),
            "tumbling windows of 1 week since 1970-01-04 in UTC",
        ),
        (
            HoppingWindows("1 year", "3 months", zone="UTC", offset="1 month"),
            "hopping windows of 1 year every 3 months since 1970-02-01 in UTC",
        ),
        (
            RollingWindows(
                {"m": "month to date", "d": "day to date", "w": "week to date"}, zone="Asia/Tokyo"
            ),
            "rolling windows of the day, week, month to date in Asia/Tokyo",
        ),
        (
            RollingWindows({"d": "day to date", "2d": "2 days"}, zone="Asia/Tokyo", offset="6 hours"),
            "rolling windows of up to 2 d and the day from 06:00 to date in Asia/Tokyo",
        ),
    ],
    ids=str,
)
def test_operators_in_words(windows: object, said: str) -> None:
    """Their kind and their lengths, as the definition has them."""
    op = windows.group_by("k").aggregate(n=agg.count())  # type: ignore[attr-defined]
    assert said == title(op.bind(SCHEMA, "at", resolve("memory", {})).identity())


def test_windows_of_folds_in_words() -> None:
    """They are the same windows, stored window by window."""
    fold = agg.fold(0, lambda total, v: total + v, "v", type="bigint")
    op = HoppingWindows("1 hour", "5 minutes").group_by("k").aggregate(n=fold)
    identity = op.bind(SCHEMA, "at", resolve("memory", {})).identity()
    assert "hopping windows of 1 h every 5 min" == title(identity)
    assert ("stores", "windows, since a fold has no merge") in [*facts(identity)]


def test_custom_operators_in_words() -> None:
    """Their name and version."""
    binding = Echo().group_by("k").bind(SCHEMA, "at", resolve("memory", {}))
    assert "custom operator Echo, version 1" == title(binding.identity())


def test_sizes_and_times() -> None:
    """In the largest unit that they reach; times that no calendar has are none."""
    sizes = {
        0: "0 B",
        999: "999 B",
        1_000: "1.0 KB",
        999_940: "999.9 KB",
        999_960: "1.0 MB",
        2.5e18: "2,500.0 PB",
    }
    assert sizes == {size: byte_text(size) for size in sizes}
    assert ["1970-01-01 00:00:00", "1969-12-31 23:59:59.5", "0001-01-01 00:00:00", None, None] == [
        moment(us) for us in (0, -500_000, -62_135_596_800_000_000, -62_135_596_800_000_001, 2**62)
    ]
    assert {"a": ["00ff", "1"]} == plain({"a": (b"\x00\xff", pa.scalar(1))})


def test_tables_do_nothing_to_a_terminal() -> None:
    """Control characters come as escapes, long texts are cut, and wide tables have a line for each value."""
    table = pa.table({"k": ["\x1b[31mred\n", "x" * 99, None], "s": [{"a": 1, "b": 2.5}] * 3})
    assert [
        f"{'k':60}  s.a  s.b",
        f"{'-' * 60}  ---  ---",
        f"{chr(92)}x1b[31mred{chr(92)}n{' ' * 47}    1  2.5",
        f"{'x' * 57}...    1  2.5",
        f"{'null':60}    1  2.5",
    ] == arrow_table(table, 100).splitlines()
    assert ["k    null", "s.a  1", "s.b  2.5"] == arrow_table(table.slice(2), 10).splitlines()


HOSTILE = "a\x1b[2J\x9b31m\x7f\u202e\u2028\nb"
"""Clears a terminal, colours it, deletes, writes backwards, and begins lines of its own."""
SHOWN = r"a\x1b[2J\x9b31m\x7f\u202e\u2028\nb"


def test_names_of_columns_do_nothing_to_a_terminal() -> None:
    """Where each value has a line, too."""
    assert [f"{SHOWN}  1"] == arrow_table(pa.table({HOSTILE: [1]}), 3).splitlines()


@pytest.mark.parametrize("value", [HOSTILE, {HOSTILE: [HOSTILE, b"\x1b", "\U000e0001"]}])
def test_json_does_nothing_to_a_terminal(value: object) -> None:
    """It is the same value, in characters that are printed."""
    text = json_text(value)
    assert text.isprintable()
    assert plain(value) == json.loads(text)


def test_what_is_printed_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of the command's own are kept, whatever is in them."""
    say(f"one {HOSTILE.replace(chr(10), '')}\ntwo")
    say_each([HOSTILE, "two"])
    complain(HOSTILE)
    out, err = capsys.readouterr()
    assert [f"one {SHOWN.replace(chr(92) + 'n', '')}", "two", SHOWN, "two"] == out.splitlines()
    assert [SHOWN] == err.splitlines()


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("command", ["summary", "state", "report"])
def test_errors_do_nothing_to_a_terminal(
    command: str, traced: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path that is named in an error, and the trace of the error."""
    place = str(tmp_path / HOSTILE)
    arguments = [command, place, *(["--out", str(tmp_path / "page.html")] if command == "report" else [])]
    assert 1 == main([*arguments, *(["--traceback"] if traced else [])])
    said = "".join(capsys.readouterr())
    assert "a\\x1b[2J" in said
    assert all(line.isprintable() for line in said.split("\n"))


def test_identities_do_nothing_to_a_terminal() -> None:
    """What a checkpoint says of its operator, which are lines of a summary."""
    identity = {"operator": HOSTILE, "version": HOSTILE, "grouped by": [HOSTILE], "columns": [HOSTILE]}
    assert f"custom operator {SHOWN}, version {SHOWN}" == title(identity)


def test_the_documented_commands_are_valid() -> None:
    """Every command that a page shows is one that the parser takes."""
    commands = [
        command.replace("\\\n", " ")
        for page in (ROOT / "docs").rglob("*.md")
        for block in re.findall(r"^```bash\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        for command in re.findall(r"^windows (?:.*\\\n)*.*$", block, re.MULTILINE)
    ]
    assert 8 <= len(commands)
    for command in commands:
        assert callable(parser().parse_args(shlex.split(command)[1:]).run), command


@pytest.mark.slow
def test_the_command_as_a_process(tmp_path: Path) -> None:
    """`python -m operators` is the command: it prints an error on stderr, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "operators", "state", tmp_path / "none"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("windows: error: there is no folder")
