"""One step of an operator: what it gets and reports, its timers, its store, and the rows that it emits."""
