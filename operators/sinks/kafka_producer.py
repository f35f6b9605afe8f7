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
    """The transactions of one producer, which fences older ones of the same name."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._name = name
        self._timeout = cluster.timeout
        self._failed: KafkaError | None = None
        settings = cluster.settings(transactional_id=name, delivery_report_only_error=True)
        own = {"on_delivery": self._delivered, "error_cb": self._heard}
        self._producer = Producer({"linger.ms": 5, "compression.type": "lz4", **settings, **own}, logger=LOG)
        self._producer.init_transactions(self._timeout)

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

    def _delivered(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _heard(self, error: KafkaError) -> None:
        LOG.warning("the producer %r says: %s", self._name, error)

    def _refuse_failed(self) -> None:
        if self._failed is not None:
            raise KafkaException(self._cause(self._failed))

    def _cause(self, error: KafkaError) -> KafkaError:
        """Return what the open transaction failed of, if it is why messages were thrown away."""
        if error.code() in _THROWN_AWAY:
            try:
                self._producer.begin_transaction()  # refused, since one is open; its error is given
            except KafkaException as found:
                if found.args[0].code() != KafkaError._STATE:
                    return found.args[0]
        return error


def raised_by(error: KafkaException | SystemError) -> KafkaException:
    """Return Kafka's error: of a fatal one, Python's binding may raise a SystemError, with it as the cause or without."""
    if isinstance(error, KafkaException):
        return error
    if isinstance(error.__cause__, KafkaException):
        return error.__cause__
    return KafkaException(KafkaError(KafkaError._FATAL, str(error)))
