"""How far a query is behind in topics of Kafka, from what Spark says of its sources. Spark commits no offsets of groups."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

_KAFKA = "KafkaV2["
"""How Spark's description of the source begins."""


def lag_of(sources: Iterable[Any]) -> dict[tuple[str, int], int]:
    """Return the records of each topic and partition that were there when a batch began, and that it left for later ones.

    Args:
        sources: those of a query's progress. Two sources with the same topic: the one that is further behind counts.
    """
    found: dict[tuple[str, int], int] = {}
    for source in sources:
        if not str(source.description).startswith(_KAFKA):
            continue
        read, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        for place in read.keys() & latest.keys():
            left = max(0, latest[place] - read[place])
            found[place] = max(left, found.get(place, 0))
    return dict(sorted(found.items()))


def _offsets(text: object) -> dict[tuple[str, int], int]:
    """Offsets as Kafka's source writes them, by topic and partition; none if it is something else.

    Older versions of PySpark give clients of Spark Connect the text of a dictionary. Names of topics have no quotes.
    """
    with suppress(ValueError, AttributeError, TypeError):
        return {
            (topic, int(partition)): int(offset)
            for topic, offsets in json.loads(str(text).replace("'", '"')).items()
            for partition, offset in offsets.items()
        }
    return {}
