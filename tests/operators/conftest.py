"""What tests of operators share."""

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from state_backends.store import cutting
from tests.operators.sinks.postgres_server import postgres_server

_DATABASES = count()


@pytest.fixture(scope="module")
def pages_of_few_entries() -> Iterator[None]:
    """Two entries make a page full, so that the few records of these tests go the way of keys with many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "PAGE_ENTRIES", 2)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """How to connect to a PostgreSQL server that runs as long as the tests."""
    with postgres_server() as conninfo:
        yield conninfo


@pytest.fixture
def database(postgres: str) -> str:
    """How to connect to a new, empty database."""
    name = f"test_{next(_DATABASES)}"
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return f"{postgres} dbname={name}"
