"""A backend and its options come from arguments before conf before defaults; what is unknown is refused."""

import pickle
import re
import tempfile
from pathlib import Path

import pytest

from state_backends import StateConfig, StateError, known_options, resolve
from state_backends.backends.memory import MemoryBackend
from state_backends.backends.rocksdb import RocksDBBackend
from state_backends.config import option_scope


def test_default() -> None:
    """Without any setting the backend is memory, without options."""
    assert (
        StateConfig("memory") == resolve() == resolve(None, {}, {}) == resolve(conf={"spark.app.name": "x"})
    )
    assert MemoryBackend is resolve().backend_class


@pytest.mark.parametrize(
    ("backend", "options", "conf", "expected"),
    [
        (None, None, {"spark.windows.state.backend": "rocksdb"}, "rocksdb"),
        (None, {"state.backend": "rocksdb"}, None, "rocksdb"),
        (None, {"state.backend": "memory"}, {"spark.windows.state.backend": "rocksdb"}, "memory"),
        ("memory", None, {"spark.windows.state.backend": "rocksdb"}, "memory"),
        ("rocksdb", {"state.backend": "memory"}, {"spark.windows.state.backend": "memory"}, "rocksdb"),
    ],
)
def test_argument_before_conf_before_default(
    backend: str | None, options: dict[str, object] | None, conf: dict[str, str] | None, expected: str
) -> None:
    """The backend is that of the argument, else that of the options, else that of the conf."""
    config = resolve(backend, options, conf)
    assert (expected, ()) == (config.backend, config.options)


def test_options_before_conf() -> None:
    """An option given as argument replaces the one in the conf; the others stay."""
    conf = {"spark.windows.state.buckets": "3", "spark.windows.state.segment": "1 hour", "spark.sql.x": "y"}
    config = resolve("memory", {"state.buckets": 5}, conf)
    assert (("state.buckets", "5"), ("state.segment", "1 hour")) == config.options
    assert (5, "1 hour") == (config.buckets, config.segment)


def test_prefix_may_be_given() -> None:
    """Options may be named with their prefix or without it."""
    assert resolve("memory", {"state.buckets": 5}) == resolve("memory", {"spark.windows.state.buckets": "5"})


def test_config_is_one_frozen_value() -> None:
    """A configuration is equal to its copy that went to a worker, hashes alike, and cannot be changed."""
    config = resolve("rocksdb", {"state.buckets": 7, "state.rocksdb.compression": "zstd"})
    assert 7 == config.buckets
    copy = pickle.loads(pickle.dumps(config))  # noqa: S301 - our own bytes
    assert (config, hash(config), 7) == (copy, hash(copy), copy.buckets)
    with pytest.raises(AttributeError):
        config.backend = "memory"  # type: ignore[misc]


@pytest.mark.parametrize("given", ["state.bucketz", "state.rocksdb.compresion", "buckets", "state", ""])
@pytest.mark.parametrize("source", ["options", "conf"])
def test_unknown_options_are_refused(given: str, source: str) -> None:
    """An option that nobody knows is refused by its full name with all known ones, wherever it was set."""
    sources = {"options": None, "conf": None, source: {f"spark.windows.{given}": "1"}}
    with pytest.raises(ValueError, match=re.escape(f"unknown option spark.windows.{given}")) as refused:
        resolve("memory", sources["options"], sources["conf"])
    for name in known_options("memory"):
        assert f"spark.windows.{name}" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("state.bucket", "state.buckets"), ("state.rocksdb.writebuffermb", "state.rocksdb.writeBufferMb")],
)
def test_mistyped_options_get_a_hint(given: str, meant: str) -> None:
    """An option that looks like a known one is refused with that one as a hint."""
    with pytest.raises(ValueError, match=re.escape(f"did you mean spark.windows.{meant}?")):
        resolve("memory", {given: "1"})


def test_unknown_backend_is_refused() -> None:
    """A backend that nobody knows is refused with all known ones, and a hint where one is close."""
    with pytest.raises(
        ValueError, match=r"unknown state backend 'rocksbd'; did you mean rocksdb\? Known: memory, rocksdb"
    ):
        resolve("rocksbd")
    with pytest.raises(ValueError, match=r"unknown state backend 'zzz'.*memory, rocksdb"):
        resolve(conf={"spark.windows.state.backend": "zzz"})


def test_message_without_a_hint_reads_well() -> None:
    """Where there is nothing to hint at, the known ones follow a mark of punctuation."""
    with pytest.raises(ValueError, match=r"unknown state backend 'zzz'[.;:,] "):
        resolve("zzz")


def test_options_of_other_built_in_backends_are_accepted() -> None:
    """Switching the backend needs no other change: the other built-in backends' options may stay."""
    conf = {"spark.windows.state.rocksdb.blockCacheMb": "8"}
    assert (("state.rocksdb.blockCacheMb", "8"),) == resolve("memory", conf=conf).options


def test_known_options_have_help() -> None:
    """Every option, general and of each backend, has a line of help."""
    known = known_options("memory")
    assert {"state.backend", "state.buckets", "state.directory", "state.segment"} <= set(known)
    assert {f"state.rocksdb.{name}" for name in RocksDBBackend.known_options()} <= set(known)
    assert all(known.values())


@pytest.mark.parametrize("wrong", ["0", "-1", "many", "1.5", "1e3", "", " 4", "100001", "True"])
def test_bad_number_of_buckets_is_refused(wrong: str) -> None:
    """A number of buckets that is none is refused on the driver, with what is accepted."""
    with pytest.raises(
        ValueError,
        match=re.escape(f"spark.windows.state.buckets is {wrong!r}: it must be a whole number from 1"),
    ):
        resolve("memory", {"state.buckets": wrong})


@pytest.mark.parametrize(
    ("option", "wrong", "expected"),
    [
        ("writeBufferMb", "0", "it must be a whole number of MiB, at least 1"),
        ("writeBufferMb", "-64", "it must be a whole number of MiB, at least 1"),
        ("blockCacheMb", "64m", "it must be a whole number of MiB, at least 1"),
        ("blockCacheMb", "", "it must be a whole number of MiB, at least 1"),
        ("compression", "gzip", "it must be one of lz4, zstd, snappy, none"),
        ("compression", "", "it must be one of lz4, zstd, snappy, none"),
    ],
)
class TestBadRocksDBValues:
    """Values of RocksDB's options are checked, and refused as what they are."""

    def test_refused_on_the_driver(self, option: str, wrong: str, expected: str) -> None:
        """A bad value of the chosen backend is refused when the configuration is read, on the driver."""
        with pytest.raises(ValueError, match=re.escape(f"rocksdb.{option} is {wrong!r}: {expected}")):
            resolve("rocksdb", {f"state.rocksdb.{option}": wrong})

    def test_refused_on_open(self, option: str, wrong: str, expected: str, tmp_path: Path) -> None:
        """A bad value is refused on open too, and nothing is said of locks or damaged directories."""
        with pytest.raises(
            (ValueError, StateError), match=re.escape(f"rocksdb.{option} is {wrong!r}")
        ) as refused:
            RocksDBBackend.open(tmp_path, {option: wrong})
        assert expected in str(refused.value)
        assert "delete the directory" not in str(refused.value)


def test_unset_properties() -> None:
    """What was not set is None, or the machine's own directory."""
    config = resolve()
    assert (None, None) == (config.buckets, config.segment)


def test_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local state goes to the directory that was set, else to Spark's first one, else to a temporary one."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert Path(tempfile.gettempdir()) == resolve().directory.parent
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/one,/two")
    assert Path("/one") == resolve().directory.parent
    assert Path("/three/four") == resolve(options={"state.directory": "/three/four"}).directory


@pytest.mark.usefixtures("plugin")
def test_open_passes_the_backend_its_own_options(tmp_path: Path) -> None:
    """A backend gets its own options by short name, and none of the others'."""
    options = {"state.plugged.depth": 3, "state.rocksdb.compression": "zstd", "state.buckets": 2}
    backend = resolve("plugged", options).open(tmp_path / "here")
    assert (tmp_path / "here", {"depth": "3"}) == backend.opened_with  # type: ignore[attr-defined]


def test_backend_by_module_and_attribute(plugin: str, tmp_path: Path) -> None:
    """A backend named module:attribute is imported, and its options stand under the attribute's name."""
    name = f"{plugin}:Plugged"
    config = resolve(conf={"spark.windows.state.backend": name, "spark.windows.state.Plugged.url": "u"})
    assert (name, "Plugged") == (config.backend, config.backend_class.__name__)
    assert (tmp_path, {"url": "u"}) == config.open(tmp_path).opened_with  # type: ignore[attr-defined]
    assert ["Plugged", "Plugged", "memory"] == [option_scope(n) for n in (name, "a.b:c.Plugged", "memory")]


@pytest.mark.usefixtures("plugin")
def test_unknown_options_of_a_third_party_are_refused() -> None:
    """A third party's options are checked like our own."""
    with pytest.raises(ValueError, match=r"did you mean spark\.windows\.state\.plugged\.depth"):
        resolve("plugged", {"state.plugged.dept": 1})
