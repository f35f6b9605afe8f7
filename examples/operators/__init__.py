"""Operators of one's own, on the flights out of New York: each file is one, with a command that shows it."""
