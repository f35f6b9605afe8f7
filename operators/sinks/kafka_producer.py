"""A producer, and transactions that are begun, filled and committed, or end with the producer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from operators.sinks.kafka_topics import LOG, Cluster

_ABORT_SECONDS = 5.0
_POLL_SECONDS = 0.05
_THROWN_AWAY = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


class Transactions:
    """The transactions of one producer, which fences older ones of the same name.

    The producer's threads and connections end with this object, or by `discard`: nothing that the producer calls refers to it.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._timeout = cluster.timeout
        self._heard = _Heard(name)
        settings = cluster.settings(transactional_id=name, delivery_report_only_error=True)
        own = {"on_delivery": self._heard.delivered, "error_cb": self._heard.error}
        self._producer = Producer({"linger.ms": 5, "compression.type": "lz4", **settings, **own}, logger=LOG)
        try:
            self._producer.init_transactions(self._timeout)
        except BaseException:
            self.discard()
            raise

    @contextmanager
    def one(self) -> Iterator[Callable[..., None]]:
        """Yield what takes topic, partition, key, value and headers of a message; commit at the end of the block."""
        self._producer.begin_transaction()
        yield self._produce
        while self._producer.flush(1):
            self._refuse_failed()
        self._refuse_failed()
        self._producer.commit_transaction(self._timeout)

    def discard(self) -> None:
        """End the producer. A transaction that is open is aborted if possible: readers wait for its end."""
        with suppress(KafkaException, SystemError):
            self._producer.abort_transaction(_ABORT_SECONDS)
        self._producer.purge()
        del self._producer  # frames of errors may keep this object for long

    def _produce(
        self,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes | None,
        headers: Any = None,
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:  # its queue is full
                self._producer.poll(_POLL_SECONDS)
                self._refuse_failed()
            else:
                return

    def _refuse_failed(self) -> None:
        if self._heard.failed is not None:
            raise KafkaException(self._cause(self._heard.failed))

    def _cause(self, error: KafkaError) -> KafkaError:
        """Return what the open transaction failed of, if it is why messages were thrown away."""
        if error.code() in _THROWN_AWAY:
            try:
                self._producer.begin_transaction()  # refused, since one is open; its error is given
            except KafkaException as found:
                if found.args[0].code() != KafkaError._STATE:
                    return found.args[0]
        return error


class _Heard:
    """What a producer says.

    Attributes:
        failed: why the first message was not delivered, if one was not.
    """

    def __init__(self, name: str) -> None:
        self.failed: KafkaError | None = None
        self._name = name

    def delivered(self, error: KafkaError | None, _message: Any) -> None:
        """Take the report of a message."""
        if error is not None and self.failed is None:
            self.failed = error

    def error(self, error: KafkaError) -> None:
        """Log an error of the producer's connections."""
        LOG.warning("the producer %r says: %s", self._name, error)


def raised_by(error: KafkaException | SystemError) -> KafkaException:
    """Return Kafka's error: of a fatal one, Python's binding may raise a SystemError, with it as the cause or without."""
    if isinstance(error, KafkaException):
        return error
    if isinstance(error.__cause__, KafkaException):
        return error.__cause__
    return KafkaException(KafkaError(KafkaError._FATAL, str(error)))
