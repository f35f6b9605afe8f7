"""Texts of the command: numbers and times, operators in words, tables."""
