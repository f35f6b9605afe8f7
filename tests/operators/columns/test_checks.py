"""Names that users give."""

import pytest

from operators import DefinitionError
from operators.columns.checks import check_name


@pytest.mark.parametrize("name", ["windows", "Fenêtres 2", "x" * 100])
def test_names_of_operators(name: str) -> None:
    """Texts that can be printed."""
    check_name(name)


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[2J", "a\u2028b", "a\u202eb", "x" * 101, None, 5])
def test_what_is_no_name_is_refused(name: object) -> None:
    """They would begin lines of their own in a log, or change a terminal."""
    with pytest.raises(
        DefinitionError, match=r"^name is .*: the name of an operator is a text of 1 to 100 characters"
    ) as raised:
        check_name(name)
    assert str(raised.value).isprintable()
