"""Logging in workers, which have no logging of their own."""

import logging

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_ROOTS = ("operators", "state_backends")


def log_at(level: str) -> None:
    """Have the library's loggers write from this level on, to the worker's stderr if nobody has set up logging.

    Args:
        level: name of a level, in any case.
    """
    for name in _ROOTS:
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        if not logger.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter(_FORMAT))
            logger.addHandler(handler)
