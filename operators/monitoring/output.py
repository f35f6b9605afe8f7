"""The interface of what receives the metrics of batches."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from operators.errors import DefinitionError
from operators.monitoring.batch import OperatorBatch, QueryRun


class BatchOutput(ABC):
    """Receives what operators did in each batch; given to `report_batches`.

    Spark calls listeners one after another, on a thread of its own, some time after the batch: a slow output delays later
    reports, and no batch. An error is logged, and the query goes on.
    """

    @property
    def name(self) -> str:
        """The name in log lines; by default that of the class."""
        return type(self).__name__

    def started(self, query: QueryRun) -> None:  # noqa: B027 - most outputs have nothing to do
        """A streaming query of the session started. Queries that ran before are not announced."""

    @abstractmethod
    def report(self, batch: OperatorBatch) -> None:
        """An operator worked in a batch."""

    def ended(self, query: QueryRun, error: str | None) -> None:  # noqa: B027 - as `started`
        """A query ended.

        Args:
            query: the run that ended.
            error: text of the exception that ended it; None if it was stopped or used up its input.
        """


class FunctionOutput(BatchOutput):
    """Passes each batch to a function."""

    def __init__(self, function: Callable[[OperatorBatch], object]) -> None:
        self._function = function

    @property
    def name(self) -> str:
        return getattr(self._function, "__qualname__", None) or repr(self._function)

    def report(self, batch: OperatorBatch) -> None:
        self._function(batch)


def as_output(output: BatchOutput | Callable[[OperatorBatch], object]) -> BatchOutput:
    """Return an output as it is, and a function as an output.

    Raises:
        DefinitionError: it is neither, or a class where an instance is needed.
    """
    if isinstance(output, BatchOutput):
        return output
    if isinstance(output, type) or not callable(output):
        raise DefinitionError(
            f"an output must be a BatchOutput, such as PrometheusOutput(), or a function that takes a batch, not {output!r}"
        )
    return FunctionOutput(output)
