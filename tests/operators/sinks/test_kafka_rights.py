"""The rights that docs/kafka.md lists for a sink are enough, and each of them is needed, that to create topics among them."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from examples.kafka.broker import Broker
from operators.sinks import KafkaSink, SinkError, read_table
from operators.sinks.contract.base import changes, number_of, row
from tests.operators.sinks.kafka_broker import broker_or_skip
from tests.patience import wait_until

pytestmark = pytest.mark.connectors
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT,PROXY:PLAINTEXT",
    "inter.broker.listener.name": "PROXY",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_writer="secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Who comes by the listener of the tests is a super user; the user `writer` has the rights that it is given."""
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "writer",
    "sasl.password": "secret",
    "transaction.timeout.ms": 3_000,
}
TOPIC, NUMBERS, TRANSACTIONS = "visits", "visits-windows-batches", "windows visits q"
RIGHTS = [
    (ResourceType.TOPIC, TOPIC, AclOperation.WRITE),
    (ResourceType.TOPIC, NUMBERS, AclOperation.WRITE),
    (ResourceType.TOPIC, NUMBERS, AclOperation.READ),
    (ResourceType.TRANSACTIONAL_ID, TRANSACTIONS, AclOperation.WRITE),
]
"""Each of them implies DESCRIBE."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this module's, with ACLs."""
    with broker_or_skip(tmp_path_factory.mktemp("kafka"), settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def admin(broker: Broker) -> Iterator[AdminClient]:
    """A client of the super user's that ends with the test."""
    with AdminClient({"bootstrap.servers": broker.behind}) as admin:
        yield admin


def binding(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    allow, literal = AclPermissionType.ALLOW, ResourcePatternType.LITERAL
    return AclBinding(kind, name, literal, "User:writer", "*", operation, allow)


def give(admin: AdminClient, *rights: tuple[ResourceType, str, AclOperation]) -> None:
    """Give rights, and wait until the broker goes by them."""
    for done in admin.create_acls([binding(*right) for right in rights]).values():
        done.result()
    wait_until(lambda: all(has(admin, right) for right in rights), "the rights", lambda: None)


def take(admin: AdminClient, right: tuple[ResourceType, str, AclOperation]) -> None:
    """Take a right, and wait until the broker goes by it."""
    for done in admin.delete_acls([wanted(right)]).values():
        assert 1 == len(done.result())
    wait_until(lambda: not has(admin, right), "the end of the right", lambda: None)


def has(admin: AdminClient, right: tuple[ResourceType, str, AclOperation]) -> bool:
    """Whether the broker's own list has a right: the controller answers before it does."""
    return len(admin.describe_acls(wanted(right)).result()) > 0


def wanted(right: tuple[ResourceType, str, AclOperation]) -> AclBindingFilter:
    kind, name, operation = right
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBindingFilter(kind, name, literal, "User:writer", "*", operation, allow)


def test_the_listed_rights_are_enough_and_needed(broker: Broker, admin: AdminClient) -> None:
    """With topics that exist: a sink writes with all rights, and is refused without any one of them, in words."""
    for made in admin.create_topics([NewTopic(TOPIC, 3, 1), NewTopic(NUMBERS, 1, 1)]).values():
        made.result()
    sink = KafkaSink(broker.servers, TOPIC, config=LOGIN, timeout=10)
    with pytest.raises(
        SinkError, match=r"there is no topic|The user needs the rights that docs/kafka.md lists"
    ):
        sink.write(replace(changes(0, [row("a")]), query="q"))
    give(admin, *RIGHTS)
    for batch, right in enumerate(RIGHTS):
        sink = KafkaSink(broker.servers, TOPIC, config=LOGIN, timeout=10)
        assert sink.write(replace(changes(batch, [row("a", n=batch)]), query="q"))
        assert batch == number_of(sink.last_batch("q"))
        take(admin, right)
        with pytest.raises(SinkError) as refused:
            KafkaSink(broker.servers, TOPIC, config=LOGIN, timeout=10).write(
                replace(changes(batch + 1, [row("a", n=-1)]), query="q")
            )
        assert "The user needs the rights" in str(refused.value) or "there is no topic" in str(refused.value)
        give(admin, right)


def test_topics_are_created_with_the_right_to_create(broker: Broker, admin: AdminClient) -> None:
    """Without it, each of the two topics is named that is missing; the batch is written once the user has the right to both."""
    topic, numbers = "pages", "pages-windows-batches"
    give(admin, (ResourceType.TRANSACTIONAL_ID, "windows pages q", AclOperation.WRITE))
    give(admin, (ResourceType.TOPIC, topic, AclOperation.WRITE))
    give(admin, *[(ResourceType.TOPIC, numbers, right) for right in (AclOperation.READ, AclOperation.WRITE)])
    for name in topic, numbers:
        with pytest.raises(
            SinkError, match=rf"the right to create the topic '{name}'.* docs/kafka\.md lists"
        ):
            write_pages(broker)
        assert name not in admin.list_topics().topics
        give(admin, (ResourceType.TOPIC, name, AclOperation.CREATE))
    assert write_pages(broker)
    assert [7] == [json.loads(value)["n"] for value in read_table(broker.behind, topic).values()]


def write_pages(broker: Broker) -> bool:
    """Write the first batch of a sink that creates its topic."""
    sink = KafkaSink(broker.servers, "pages", 3, config=LOGIN, timeout=10)
    return sink.write(replace(changes(0, [row("a", n=7)]), query="q"))
