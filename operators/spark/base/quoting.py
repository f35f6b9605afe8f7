"""Names of columns as Spark parses them."""


def quote(name: str) -> str:
    """Return a column's name in backticks, for places where Spark parses names."""
    return f"`{name.replace('`', '``')}`"
