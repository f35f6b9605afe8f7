"""Metrics for OpenTelemetry, by a meter of its API."""

from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from operators.errors import DefinitionError
from operators.monitoring.exported import (
    CUSTOM_HELP,
    GAUGES,
    LABELS,
    LAG_HELP,
    LAG_LABELS,
    PREFIX,
    RUNNING_HELP,
    TOTALS,
)
from operators.monitoring.values import Series, ValuesOutput

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

_PACKAGE = "spark-stateful-windows"


class OpenTelemetryOutput(ValuesOutput):
    """Gives the metrics of all batches to OpenTelemetry. Needs the package opentelemetry-api.

    The metrics are observed when the provider's reader collects them.

    Args:
        provider: makes the meter; by default the global one.

    Raises:
        DefinitionError: the package is not installed.
    """

    def __init__(self, provider: "MeterProvider | None" = None) -> None:
        try:
            from opentelemetry.metrics import get_meter
        except ImportError as error:
            raise DefinitionError(
                "OpenTelemetryOutput needs the package opentelemetry-api: pip install 'opentelemetry-api>=1.25'"
            ) from error
        super().__init__()
        values = self._values
        meter = get_meter(_PACKAGE, _version(), meter_provider=provider)
        for one in TOTALS:
            observed = [_observer(lambda one=one: values.of(one), LABELS)]  # type: ignore[misc]
            meter.create_observable_counter(one.opentelemetry, observed, one.symbol, one.help)
        for one in GAUGES:
            observed = [_observer(lambda one=one: values.of(one), LABELS)]  # type: ignore[misc]
            meter.create_observable_gauge(one.opentelemetry, observed, one.symbol, one.help)
        counts = [_observer(values.custom, (*LABELS, "count"))]
        meter.create_observable_counter(f"{PREFIX}.custom", counts, "", CUSTOM_HELP)
        lag = [_observer(values.lag, LAG_LABELS)]
        meter.create_observable_gauge(f"{PREFIX}.source_lag_records", lag, "", LAG_HELP)
        running = [_observer(values.running, LABELS[:1])]
        meter.create_observable_gauge(f"{PREFIX}.query_running", running, "", RUNNING_HELP)


def _observer(series: Callable[[], list[Series]], labels: tuple[str, ...]) -> Callable[[Any], Iterable[Any]]:
    """A function that OpenTelemetry calls for the values."""
    from opentelemetry.metrics import Observation

    return lambda _: [Observation(value, dict(zip(labels, found, strict=True))) for found, value in series()]


def _version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:  # Run from the source tree.
        return ""
