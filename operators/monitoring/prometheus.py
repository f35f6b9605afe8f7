"""Metrics for Prometheus, in a registry of `prometheus_client`, and on request at an HTTP endpoint."""

from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any

from operators.errors import DefinitionError
from operators.monitoring.exported import CUSTOM, CUSTOM_HELP, GAUGES, LABELS, RUNNING, RUNNING_HELP, TOTALS
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
        self._ends: list[Callable[[], None]] = []
        self.registry.register(_Collector(self._values))

    def serve(self, port: int, address: str = "127.0.0.1") -> int:
        """Serve the registry at `http://ADDRESS:PORT/metrics`, on a thread of its own, until `close`.

        Args:
            port: to listen on; 0 takes a free one.
            address: to listen on; "0.0.0.0" for all, if Prometheus runs on another machine.

        Returns:
            the port.

        Raises:
            OSError: the port is in use.
        """
        from prometheus_client import start_http_server

        server, thread = start_http_server(port, address, self.registry)
        self._ends.append(lambda: _end(server, thread))
        return server.server_port

    def close(self) -> None:
        """Stop the endpoints."""
        while self._ends:
            self._ends.pop()()


def _end(server: Any, thread: Thread) -> None:
    server.shutdown()
    server.server_close()
    thread.join()


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
        gauges.append((RUNNING, RUNNING_HELP, LABELS[:1], values.running()))
        for kind, families in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
            for name, text, labels, series in families:
                family = kind(name, text, labels=labels)
                for of_labels, value in series:
                    family.add_metric(of_labels, value)
                yield family
