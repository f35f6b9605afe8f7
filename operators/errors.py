"""Errors that users of the operators see; each message names the cause and the way out."""


class DefinitionError(ValueError):
    """An operator definition, or its use on a frame, cannot work."""


class OperatorError(RuntimeError):
    """A custom operator raised an error, or broke its contract; the original error is the cause."""


class WorkerError(RuntimeError):
    """A batch failed in a worker: names operator, bucket, batch and what went wrong; the cause is the error itself."""


class SessionSetupError(RuntimeError):
    """A Spark session lacks what a stateful streaming query needs."""
