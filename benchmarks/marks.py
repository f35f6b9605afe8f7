"""Parameters of benchmarks that run only with `--full`."""

from functools import partial

import pytest

full = partial(pytest.param, marks=pytest.mark.full)
"""A parameter of the full set: `full(10_000)`."""
