"""Bytes and values made a little wrong."""

import json
import random
from collections.abc import Callable
from typing import Any

import msgpack

EDGES = (0, 1, 0x7F, 0x80, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
ODD = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63 - 1,
    -(2**63),
    1.5,
    float("inf"),
    float("nan"),
    "",
    "../../elsewhere",
    "/etc/passwd",
    "..",
    "x" * 300,
    "1-00\x00",
    "<script>",
    [],
    {},
    [[]],
    [[[[[[[[]]]]]]]],
    {"a": 1},
    [1] * 20,
)
BINARY_ODD = (
    *ODD,
    2**64 - 1,
    b"",
    b"\x00" * 16,
    b"x" * 100,
    {1: 2},
    {b"k": []},
    {None: None},
    msgpack.ExtType(4, b"1E+999999999"),
    msgpack.ExtType(4, b"NaN"),
    msgpack.ExtType(2, b"\x7f" + b"\xff" * 7),
    msgpack.ExtType(1, b"\x7f" + b"\xff" * 7),
    msgpack.ExtType(6, b"\x7f" * 9_000),
    msgpack.ExtType(6, b""),
    msgpack.ExtType(99, b"?"),
)
Change = Callable[[random.Random, bytes], bytes]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes with a few changes of any kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        data = rng.choice(_CHANGES)(rng, data)
    return data


def _flip(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([(data + b"\0")[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _set(rng: random.Random, data: bytes) -> bytes:
    at, width = rng.randrange(len(data) + 1), rng.choice((1, 2, 4, 8))
    number = rng.choice(EDGES) & (256**width - 1)
    return data[:at] + number.to_bytes(width, rng.choice(("little", "big"))) + data[at + width :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randrange(9) :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(9)) + data[at:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:b] + data[a:b][:1_000] * rng.randrange(1, 4) + data[b:]


_CHANGES: tuple[Change, ...] = (_flip, _flip, _set, _set, _cut, _remove, _insert, _repeat)


def packed(rng: random.Random, data: bytes) -> bytes:
    """Return msgpack with one of its values replaced; any other bytes as `mutated` has them."""
    try:
        value = msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError):
        return mutated(rng, data)
    try:
        return bytes(msgpack.packb(replaced(rng, value, BINARY_ODD)))
    except (ValueError, TypeError, OverflowError):
        return mutated(rng, data)


def written(rng: random.Random, data: bytes) -> bytes:
    """Return JSON with one of its values replaced."""
    return json.dumps(replaced(rng, json.loads(data), ODD)).encode()


def replaced(rng: random.Random, value: Any, odd: tuple[Any, ...]) -> Any:
    """Return the value with one of the values in it replaced, left out or there twice."""
    if not isinstance(value, list | dict) or not value or rng.random() < 1 / 8:
        return rng.choice(odd)
    if isinstance(value, dict):
        items = _changed([list(item) for item in value.items()], rng, odd)
        return {key: one for key, one in items if not isinstance(key, list | dict)}
    return _changed(list(value), rng, odd)


def _changed(items: list[Any], rng: random.Random, odd: tuple[Any, ...]) -> list[Any]:
    at = rng.randrange(len(items))
    how = rng.randrange(8)
    if how == 0:
        return items[:at] + items[at + 1 :]
    if how == 1:
        return items[: at + 1] + items[at:]
    pair = isinstance(items[at], list) and len(items[at]) == 2
    items[at] = [items[at][0], replaced(rng, items[at][1], odd)] if pair else replaced(rng, items[at], odd)
    return items
