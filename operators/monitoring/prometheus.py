"""Metrics for Prometheus, in a registry of `prometheus_client`, and on request at an HTTP endpoint."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from operators.errors import DefinitionError
from operators.monitoring.endpoint import Endpoint
from operators.monitoring.exported import (
    CUSTOM,
    CUSTOM_HELP,
    GAUGES,
    LABELS,
    LAG,
    LAG_HELP,
    LAG_LABELS,
    RUNNING,
    RUNNING_HELP,
    TOTALS,
)
from operators.monitoring.values import Values, ValuesOutput

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


class PrometheusOutput(ValuesOutput):
    """Keeps the metrics of all batches for Prometheus. Needs the package prometheus-client.

    Args:
        registry: to register with, such as `prometheus_client.REGISTRY`; by default a new one.

    Attributes:
        registry: that has the metrics.

    Raises:
        DefinitionError: the package is not installed.
        ValueError: the registry has metrics of these names.
    """

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError as error:
            raise DefinitionError(
                "PrometheusOutput needs the package prometheus-client: pip install 'prometheus-client>=0.20'"
            ) from error
        self.registry = CollectorRegistry() if registry is None else registry
        super().__init__()
        self._endpoints: list[Endpoint] = []
        self.registry.register(_Collector(self._values))

    def serve(self, port: int, address: str = "127.0.0.1") -> int:
        """Serve the registry at `http://ADDRESS:PORT/metrics`, on threads of its own, until `close`.

        A connection is closed after ten seconds, and the oldest one if there are more than 16.

        Args:
            port: to listen on; 0 takes a free one.
            address: to listen on; "0.0.0.0" for all, if Prometheus runs on another machine.

        Returns:
            the port.

        Raises:
            OSError: the port is in use; names it.
        """
        endpoint = Endpoint(self.registry, port, address)
        self._endpoints.append(endpoint)
        return endpoint.port

    def close(self) -> None:
        """Stop the endpoints, and close their connections."""
        while self._endpoints:
            self._endpoints.pop().close()


class _Collector:
    """What the registry asks when it is read."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def describe(self) -> Iterable["Metric"]:
        """The same metrics: the registry compares their names with those that it has."""
        return self.collect()

    def collect(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        values = self._values
        counters = [(one.prometheus, one.help, LABELS, values.of(one)) for one in TOTALS]
        gauges = [(one.prometheus, one.help, LABELS, values.of(one)) for one in GAUGES]
        counters.append((CUSTOM, CUSTOM_HELP, (*LABELS, "count"), values.custom()))
        gauges.append((LAG, LAG_HELP, LAG_LABELS, values.lag()))
        gauges.append((RUNNING, RUNNING_HELP, LABELS[:1], values.running()))
        for kind, families in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
            for name, text, labels, series in families:
                family = kind(name, text, labels=labels)
                for of_labels, value in series:
                    family.add_metric(of_labels, value)
                yield family
