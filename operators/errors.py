"""Errors that a user of the operators meets; each message names the thing and the way out."""


class DefinitionError(ValueError):
    """An operator definition, or its use on a frame, that cannot work."""


class SessionSetupError(RuntimeError):
    """A Spark session that lacks what a stateful streaming query needs."""
