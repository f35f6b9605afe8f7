"""Bytes of a query's checkpoint, damaged one at a time, and read_state: python -m tests.faults.everybyte_spark --sample 200.

Each read is a job of Spark, so that a sample takes as long as all bytes of a local runner's checkpoint. Checksum files beside
the files are removed, as there are none on object stores, in half of the cases.
"""

# ruff: noqa: T201 - a script that prints

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from operators import spark_session
from serializers import SerializationError
from state_backends import StateError, read_state
from state_backends.checkpoints.metadata import spark_errors
from tests.faults.everybyte import BACKENDS, damaged, damages
from tests.operators.spark.frames import rows, run_query, session_conf, stream, windows, write_source
from tests.progress import told

NAMED = (
    "journal",
    "pointer",
    "changelog entry",
    "the blob",
    "manifest",
    "snapshot",
    "checkpoint",
    "the state in",
)


def checkpoint(spark: SparkSession, folder: Path, backend: str) -> Path:
    """Return the checkpoint of a query that has run."""
    write_source(folder / "in", files=4, rows=8, seed=1)
    run_query(
        windows(stream(spark, folder / "in"), "sliding", backend), folder / "out", folder / "checkpoint"
    )
    return folder / "checkpoint"


def cases(place: Path, rng: random.Random, sample: int) -> Iterator[tuple[Path, str, int]]:
    """Yield damages, as many of each file as of any other."""
    files = sorted(path for path in place.rglob("*") if path.is_file() and not path.name.endswith(".crc"))
    for _ in range(sample):
        path = rng.choice(files)
        found = list(damages(path.read_bytes()))
        if found:
            yield path, *rng.choice(found)


class EveryByteOfSpark:
    """Damages copies of a checkpoint, and reads their state.

    Attributes:
        outcomes: how often there was each.
        failures: what must not be.
    """

    def __init__(self, spark: SparkSession, place: Path, scratch: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self._spark = spark
        self._place = place
        self._scratch = scratch
        self._expected = rows(read_state(place, spark=spark))

    def run(self, path: Path, how: str, at: int, *, unnoticed: bool) -> None:
        """Damage a file in a copy, whose name is new: Spark keeps stores open by their place."""
        copy = self._scratch / f"{self.outcomes.total()}"
        shutil.copytree(self._place, copy)
        name = path.relative_to(self._place)
        (copy / name).write_bytes(damaged(path.read_bytes(), how, at))
        if unnoticed:
            for beside in (f".{path.name}.crc", f"{path.name}.crc"):
                (copy / name).with_name(beside).unlink(missing_ok=True)
        self._note(f"{name} {how} at {at}{', unnoticed' * unnoticed}", copy, path.name)

    def _note(self, what: str, copy: Path, file: str) -> None:
        try:
            found = rows(read_state(copy, spark=self._spark))
        except spark_errors():
            self.outcomes["refused by Spark"] += 1  # about a file of its own
        except (StateError, SerializationError) as error:
            self.outcomes["refused"] += 1
            if not any(one in str(error) for one in (*NAMED, file)):
                self.failures.append(f"{what}: names no file: {error}")
        except Exception as error:  # noqa: BLE001 - any other is a failure
            self.outcomes["failed"] += 1
            self.failures.append(f"{what}: {type(error).__name__}: {error}")
        else:
            self.outcomes["right"] += 1
            if found != self._expected:
                self.failures.append(f"{what}: WRONG ROWS: {len(found)} for {len(self._expected)}")
        shutil.rmtree(copy, ignore_errors=True)


def main() -> int:
    """Damage, and return 1 if wrong rows came."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.everybyte_spark", description=__doc__)
    parser.add_argument("--sample", type=int, default=100, help="damages for each backend")
    parser.add_argument("--backend", choices=BACKENDS, help="one backend; by default all")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the sample")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="everybyte-", ignore_cleanup_errors=True) as folder:
        spark = spark_session("bytes", master="local[2]", buckets=1, conf=session_conf(Path(folder)))
        spark.sparkContext.setLogLevel("OFF")
        for backend in [chosen.backend] if chosen.backend else BACKENDS:
            place = checkpoint(spark, Path(folder, backend), backend)
            torment = EveryByteOfSpark(spark, place, Path(folder, "copies"))
            rng = random.Random(chosen.seed)
            for path, how, at in told(backend, cases(place, rng, chosen.sample), chosen.sample):
                torment.run(path, how, at, unnoticed=rng.random() < 1 / 2)
            for failure in torment.failures:
                print(f"FAILED {failure[:600]}")
            print(f"{backend}: {dict(torment.outcomes)}, {len(torment.failures)} failures", flush=True)
            failures += len(torment.failures)
        spark.stop()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
