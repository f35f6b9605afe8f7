"""Errors that a user of the operators meets; each message names the thing and the way out."""


class DefinitionError(ValueError):
    """An operator definition, or its use on a frame, that cannot work."""


class OperatorError(RuntimeError):
    """What an operator of one's own raised, or did that cannot be; the original error is its cause."""


class WorkerError(RuntimeError):
    """A batch that failed in a worker: names operator, bucket and batch, and what went wrong; its cause is the error itself."""


class SessionSetupError(RuntimeError):
    """A Spark session that lacks what a stateful streaming query needs."""
