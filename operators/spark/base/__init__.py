"""What all of this package needs: the session, workers and their logs, errors, metrics, and what is taken from inside Spark."""
