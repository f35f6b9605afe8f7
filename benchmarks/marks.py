"""Parameters of benchmarks that run only with `--full`, or only with `--largest`."""

from functools import partial

import pytest

full = partial(pytest.param, marks=pytest.mark.full)
"""A parameter of the full set: `full(10_000)`."""
largest = partial(pytest.param, marks=pytest.mark.largest)
"""A parameter that takes many minutes, beyond the full set."""
