"""What `windows summary` says of the largest keys, which show why a bucket is larger than the others."""

import pytest

from operators import TumblingWindows
from operators import aggregates as agg
from operators.command.arguments import parser
from operators.command.summary import summary_text, summary_values
from tests.operators.command.states import content, records, survey_of

HOSTILE = "a\x1b[2J\nb"
FOUND = survey_of(records(["small", None, HOSTILE], 3), buckets=2)
KEYS = "the largest keys of each bucket"


def table(text: str) -> list[list[str]]:
    """The rows of the table of keys: columns as they are printed."""
    lines = text.split(KEYS)[1].splitlines()[3:]
    return [line.split() for line in lines]


def test_the_largest_keys_of_each_bucket_are_shown() -> None:
    """With their panes and bytes, the largest first, as they are stored; null and odd keys can be printed."""
    found = table(summary_text(FOUND, 40, 3))
    assert 2 * 3 == len(found)
    for number, bucket in enumerate(FOUND.buckets):
        rows = found[3 * number : 3 * number + 3]
        assert {str(number)} == {row[0] for row in rows}
        assert {"small", "-", "a\\x1b[2J\\nb"} == {row[1] for row in rows}
        assert [f"{one.size:,}" for one in bucket.largest] == [row[-1] for row in rows]
        assert [f"{one.panes:,}" for one in bucket.largest] == [row[-2] for row in rows]
        assert sorted([one.size for one in bucket.largest], reverse=True) == [
            one.size for one in bucket.largest
        ]
    assert summary_text(FOUND, 40, 3).replace("\n", "").isprintable()


@pytest.mark.parametrize(("keys", "shown"), [(0, 0), (1, 2), (2, 4), (20, 6)])
def test_so_many_keys_are_shown_as_are_wanted(keys: int, shown: int) -> None:
    """With 0, no key is in the text or in the JSON: keys may be secret."""
    text = summary_text(FOUND, 40, keys)
    assert shown == (len(table(text)) if KEYS in text else 0)
    assert keys > 0 or ("small" not in text and "x1b" not in text)
    query = content(FOUND).query
    (operator,) = summary_values(query, [FOUND], keys)["operators"]
    listed = [one for bucket in operator["buckets"] for one in bucket["largest_keys"]]
    assert shown == len(listed)
    assert all({"key", "panes", "bytes"} == one.keys() and ["k"] == [*one["key"]] for one in listed)
    assert keys < 3 or None in [one["key"]["k"] for one in listed]


def test_the_table_of_keys_has_a_limit_of_rows() -> None:
    """As the other one, and says so."""
    assert summary_text(FOUND, 2, 3).endswith("the first 2 of 6 rows: --limit N shows more")


def test_there_are_no_keys_to_show_of_one_group() -> None:
    """An operator without `group_by` has none."""
    one = survey_of(records(["a"], 2), TumblingWindows("1 hour", grace="2 days").aggregate(n=agg.count()))
    assert KEYS not in summary_text(one, 40, 3)


def test_three_keys_are_shown_if_nothing_is_said() -> None:
    """And never less than none."""
    assert [3, 0] == [parser().parse_args(["summary", "c", *more]).keys for more in ([], ["--keys", "0"])]
    with pytest.raises(SystemExit):
        parser().parse_args(["summary", "c", "--keys", "-1"])
