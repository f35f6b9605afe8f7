"""What tests of operators share."""

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from operators.kinds import page_sums
from tests.operators.sinks.postgres_server import postgres_server

_DATABASES = count()


@pytest.fixture(scope="module")
def sums_of_all_pages() -> Iterator[None]:
    """Sums stand in for pages of any size and state, so that the few records of these tests go the way of many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_sums, "_DENSE", 1)
        patch.setattr(page_sums, "_FIXED", page_sums._FIXED | {"object"})
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
