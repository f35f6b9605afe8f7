"""Files for monitoring systems that come with the package."""

from pathlib import Path

DASHBOARD = Path(__file__).with_name("grafana.json")
"""A dashboard of Grafana over the metrics of `PrometheusOutput`."""
ALERTS = Path(__file__).with_name("alerts.yml")
"""Alert rules of Prometheus over them."""
