"""What the demo's topics and table are called."""

DEPARTURES = "departures"
HOURS_TOPIC = "airport-hours"
TABLE = "carriers"
PARTITIONS = 4
"""Of each topic."""
