"""Custom operators on the flights out of New York, each with a command that runs it."""
