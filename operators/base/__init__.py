"""What every operator stands on, built in or not: steps, timers, and the store."""
