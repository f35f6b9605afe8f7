"""The section on Feast of the page on features runs against the real package, which has an environment of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.feast_server import MissingError, running_server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "features.md"
_PROGRAM = """
from pathlib import Path
from dataclasses import replace
from tests.docs.blocks import blocks
from tests.docs.test_code import run

names = {"__name__": "__main__"}
page = list(blocks(Path(PAGE)))
run(page[0], names)
ADDRESS = input()  # When the server has started, which takes as long as Spark.
recipe = [block for block in page if "feast_push" in block.code]
assert len(recipe) == 2
for block in recipe:
    run(replace(block, code=block.code.replace("http://localhost:6566", ADDRESS)), names)

spark = names["spark"]
spark.conf.set("spark.sql.session.timeZone", "America/New_York")
newer = "SELECT 'gold' card, timestamp'2026-01-06 12:20:00.123456' at, 2.0 amount, 'shop-1' shop, array('till') tags"
spark.sql(newer).coalesce(1).write.parquet("payments", mode="append")
names["run_feast_push"]()
(found, *_) = names["ask_feast"]("/get-online-features", names["wanted"])["results"][1:]
with names["closing"](names["sqlite3"].connect("serving.db")) as db:
    (pushed,) = db.execute("SELECT at FROM cards WHERE card = 'gold'").fetchone()
print(pushed, found["event_timestamps"][0], sep=", ")
"""


@pytest.mark.connectors
def test_the_newest_rows_are_read_from_feast(tmp_path: Path) -> None:
    """Definitions, query and answers as the page has them, but for the address; an older row changes no answer.

    Event times keep their instant, from a session in another zone, too; Feast's store of SQLite keeps whole seconds of them.
    """
    repository = tmp_path / "repository"
    repository.mkdir()
    text = PAGE.read_text("utf-8")
    (settings,) = re.findall(r"```yaml title=\"feature_store.yaml\"\n(.*?)```", text, re.DOTALL)
    (definitions,) = [block.code for block in blocks(PAGE) if "PushSource" in block.code]
    (repository / "feature_store.yaml").write_text(settings)
    (repository / "definitions.py").write_text(definitions)
    (tmp_path / "run").mkdir()
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", f"PAGE = {str(PAGE)!r}\n{_PROGRAM}"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path / "run",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as program,
    ):
        try:
            with running_server(repository, tmp_path / "log") as address:
                out, _ = program.communicate(address)
        except MissingError as error:
            pytest.skip(str(error))
        finally:
            program.kill()
    assert 0 == program.returncode, (tmp_path / "errors").read_text()[-4_000:]
    assert "2026-01-06 17:20:00.123456Z, 2026-01-06T17:20:00Z" == out.splitlines()[-1]
