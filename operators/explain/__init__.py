"""What an operator will do with a frame, and why: told before anything runs."""

from operators.explain.explanation import Explanation

__all__ = ["Explanation"]
