"""How cost grows: one curve for each file."""
