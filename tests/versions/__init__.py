"""Versions of PySpark and Python: environments, the tests that run in each of them, and the page that says what they found."""
