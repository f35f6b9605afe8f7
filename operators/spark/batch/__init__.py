"""Bounded frames: one pass in order of key and time."""
