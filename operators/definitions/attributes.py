"""The message for a method of operators that is called on windows alone."""

from collections.abc import Collection


def unknown_attribute(windows: object, name: str, of_operators: Collection[str]) -> AttributeError:
    """Return the error for an attribute that windows lack; it says how they become an operator, which may have it.

    Args:
        windows: the window definition.
        name: of the attribute.
        of_operators: names of the methods of operators.
    """
    kind = type(windows).__name__
    said = f"{kind!r} object has no attribute {name!r}"
    if name in of_operators:
        said = (
            f"{kind} define windows only: say what to compute before {name!r}, as in "
            f".group_by('k').aggregate(n=agg.count()).{name}(...)"
        )
    return AttributeError(said, name=name, obj=windows)
