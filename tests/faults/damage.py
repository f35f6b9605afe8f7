"""Damage to files: cut short, one bit turned; with or without the checksum files beside them."""

import random
from pathlib import Path

SUFFIXES = (".changelog", ".zip", ".sst")
HOW = ("a bit turned, unnoticed", "cut short, unnoticed", "emptied, unnoticed", "a bit turned", "cut short")


def state_files(checkpoint: Path) -> dict[str, list[Path]]:
    """Return the files of Spark's state stores in a checkpoint by their sort, the newest last."""
    found = [path for path in (checkpoint / "state").rglob("*") if path.suffix in SUFFIXES]
    found.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
    return {suffix: [path for path in found if path.suffix == suffix] for suffix in SUFFIXES}


def damage(checkpoint: Path, suffix: str, how: str, chance: random.Random) -> str:
    """Damage the newest state file of a store, and say what was done.

    Args:
        checkpoint: the query's checkpoint.
        suffix: sort of the file.
        how: one of HOW; with "unnoticed" the checksum files go, as there are none on object stores.
        chance: makes the choices.
    """
    files = state_files(checkpoint)[suffix]
    by_store = {path.parent: path for path in files}  # The newest of each store.
    path = by_store[chance.choice(sorted(by_store))]
    data = bytearray(path.read_bytes())
    if how.startswith("emptied"):
        data = bytearray()
    elif how.startswith("cut short"):
        del data[chance.randrange(1, len(data)) :]
    else:
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    if how.endswith("unnoticed"):
        for beside in (path.with_name(f".{path.name}.crc"), path.with_name(f"{path.name}.crc")):
            beside.unlink(missing_ok=True)
    return f"{path.relative_to(checkpoint)} {how}, {len(data)} bytes"
