"""What is the matter with a topic of Kafka that a query reads or writes, in words."""

from operators.spark.base.inside import failure_of_kafka

_WORDS = {
    "lost": "records of a topic are gone before the query had read them: it was behind by more than the topic's retention, or "
    "the topic was deleted, perhaps made anew. Start with a new checkpoint, and from a savepoint to keep the state. With the "
    "option failOnDataLoss=false the query goes on, and the records are skipped without a word",
    "missing": "a topic does not exist, or its name has a typo: create it before the query starts. A topic that is made anew "
    "needs a new checkpoint of the queries that read it",
    "large": "Kafka refused a message that is too large: raise the option kafka.max.request.size of the sink and "
    "max.message.bytes of the topic, or write fewer columns",
    "denied": "Kafka refused a right: Spark's consumers have groups of random names, unless groupIdPrefix is set, and need "
    "READ and DESCRIBE of these and of the topic; a sink needs WRITE of its topic",
    "silent": "no broker of Kafka answers, or a topic does not exist: the sink waited for the topic for the time of the option "
    "kafka.max.block.ms. Create the topic, or see whether the brokers run and can be reached",
    "unreachable": "no broker of Kafka answers: are they running, and can the driver and the executors reach the addresses "
    "that they advertise? A broker whose disk is full ends, and its log says so. The query goes on from its last batch once "
    "it is started again",
    "unreported": "Spark's connector for Kafka could not report a batch, which is done: that of Spark 4.1 cannot report the "
    "first one of a query that had ended in the midst of it (SPARK-55271). Nothing is lost: start the query again",
}
"""By the failures that `failure_of_kafka` knows."""


def kafka_failed(text: str) -> str | None:
    """Return what is the matter with a topic, from the text of an error; None if nothing is."""
    failure = failure_of_kafka(text)
    return failure and _WORDS[failure]
