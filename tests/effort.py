"""How many examples a property test tries: as many as the profile of hypothesis says, or a multiple of that."""

from hypothesis import settings


def examples(factor: float) -> settings:
    """Settings of a test that is worth more examples than others, or costs too much for as many."""
    return settings(max_examples=max(1, round(factor * settings().max_examples)))
