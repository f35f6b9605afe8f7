"""Logging: in workers, in which nobody configures it, and what PySpark logs of errors that are raised in other words."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from operators.spark.base.inside import loggers_of_errors

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_ROOTS = ("operators", "state_backends")
_warned: set[str] = set()


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


def warn_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log a warning, if it is the first of this text in the process; later ones are logged at debug.

    Args:
        logger: the logger of the module that warns.
        message: the text, with a place for each value.
        values: the values of this warning.
    """
    logger.log(logging.DEBUG if message in _warned else logging.WARNING, message, *values)
    _warned.add(message)


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep PySpark from logging errors of this thread in the block, which are raised again in words of ours."""
    thread = get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = loggers_of_errors()
    for logger in loggers:
        logger.addFilter(of_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(of_others)
