"""Logging in workers, in which nobody configures logging."""

import logging

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_ROOTS = ("operators", "state_backends")


def log_at(level: str) -> None:
    """Set the level of the library's loggers, which write to the worker's stderr unless logging is configured.

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
