"""What an operator does with a DataFrame, and why, without running it."""

from operators.explain.explanation import Explanation

__all__ = ["Explanation"]
