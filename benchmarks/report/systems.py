"""How systems are shown: the colour of each, whether it is ours, and its place in lists."""

_COLOURS = {
    "memory": "#2563eb",
    "rocksdb": "#ea8a0c",
    "spark": "#8b5cf6",
    "panes": "#2563eb",
    "panes in Python": "#60a5fa",
    "polars": "#0d9488",
    "duckdb": "#a18207",
    "pandas": "#db2777",
    "bytewax": "#65a30d",
    "Quix Streams": "#dc2626",
    "Spark's own": "#b91c1c",
    "Flink": "#be185d",
    "KIP-450": "#dc2626",
    "KIP-450 in Python": "#f87171",
    "find windows": "#0891b2",
    "combine by doubling": "#9333ea",
    "overlap two blocks": "#4d7c0f",
    "encode": "#0891b2",
    "decode": "#9333ea",
    "500 buckets": "#0891b2",
    "1,000 buckets": "#2563eb",
    "2,000 buckets": "#ea8a0c",
    "4,000 buckets": "#dc2626",
    "a processor that counts": "#9ca3af",
    "pass-through": "#9ca3af",
    "pass-through, rows doubled": "#6b7280",
}
_OURS = "memory", "rocksdb", "spark", "panes"
_OTHERS = "#0891b2", "#4d7c0f", "#9333ea", "#be185d"


def colour(system: str) -> str:
    """Return the colour of a system; also an unknown system has the same colour in all pictures."""
    return _COLOURS.get(system) or _OTHERS[sum(system.encode()) % len(_OTHERS)]


def is_ours(system: str) -> bool:
    """Whether the system is one of our backends or algorithms."""
    return system in _OURS


def place(system: str) -> int:
    """Return the place of a system in lists: ours first, then others, then lower bounds."""
    names = list(_COLOURS)
    return names.index(system) if system in names else len(names)
