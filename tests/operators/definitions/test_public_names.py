"""What completion shows of the packages: the names for users, and nothing else."""

import subprocess
import sys
from types import ModuleType

import pytest

import operators
import operators.aggregates
import operators.monitoring
import operators.sinks
import operators.testing

PACKAGES = [operators, operators.aggregates, operators.monitoring, operators.sinks, operators.testing]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_completion_shows_the_public_names(package: ModuleType) -> None:
    """No submodules and no imported names; each name that is shown can be used."""
    assert sorted(package.__all__) == dir(package)
    assert all(hasattr(package, name) for name in package.__all__)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_an_unknown_name_is_refused_with_the_known_ones(package: ModuleType) -> None:
    """The message lists what there is."""
    with pytest.raises(
        AttributeError, match=rf"module '{package.__name__}' has no attribute 'medain'; it has "
    ):
        package.medain  # noqa: B018


@pytest.mark.slow
def test_plots_import_matplotlib_when_they_draw() -> None:
    """It is an optional package."""
    code = "import sys; from operators.testing import plot_windows; print('matplotlib' in sys.modules)"
    assert "False\n" == subprocess.check_output([sys.executable, "-c", code], text=True)
