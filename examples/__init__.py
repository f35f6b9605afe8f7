"""Demos of the window operators on real data."""
