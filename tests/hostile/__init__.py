"""Bytes that somebody made up: whatever they are, a decoder returns a value or raises one of its documented errors."""
