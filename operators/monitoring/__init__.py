"""Where metrics of streaming queries go: outputs for `report_batches`, a dashboard and alert rules.

from operators.monitoring import JsonLinesOutput, OpenTelemetryOutput, PrometheusOutput
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operators.monitoring.batch import OperatorBatch, QueryRun
    from operators.monitoring.files import ALERTS, DASHBOARD
    from operators.monitoring.json_lines import JsonLinesOutput
    from operators.monitoring.lines import TextOutput
    from operators.monitoring.opentelemetry import OpenTelemetryOutput
    from operators.monitoring.output import BatchOutput
    from operators.monitoring.prometheus import PrometheusOutput

__all__ = [
    "ALERTS",
    "DASHBOARD",
    "BatchOutput",
    "JsonLinesOutput",
    "OpenTelemetryOutput",
    "OperatorBatch",
    "PrometheusOutput",
    "QueryRun",
    "TextOutput",
]
_MODULES = {
    "batch": ("OperatorBatch", "QueryRun"),
    "files": ("ALERTS", "DASHBOARD"),
    "json_lines": ("JsonLinesOutput",),
    "lines": ("TextOutput",),
    "opentelemetry": ("OpenTelemetryOutput",),
    "output": ("BatchOutput",),
    "prometheus": ("PrometheusOutput",),
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    """Return the public names only, for completion."""
    return sorted(__all__)
