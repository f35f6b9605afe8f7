"""How state outlives processes: journal, changelog, snapshots, and the pointer that says what counts."""
