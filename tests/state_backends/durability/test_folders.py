"""Folders keep files on local disks and in S3: whole or not at all, under any name that people give to folders."""

import hashlib
import io
import os
import socket
import subprocess
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from s3_server import S3

from state_backends import StateError
from state_backends.durability import object_stores
from state_backends.durability.folders import Folder
from state_backends.durability.policy import SnapshotPolicy
from state_backends.durability.snapshots import SnapshotFolder

ROOT = Path(__file__).parents[3]
AWKWARD = [
    "a b",
    " a ",
    "100%",
    "%41",
    "b%20c",
    "Straße",
    "ä€",
    "a#b",
    "a?b=c",
    "a&b+c",
    "x:y",
    "'q\"",
    "a=b@c",
    "s3:",
]
MOST = 12 << 20


def assert_works(folder: Folder, tmp_path: Path) -> None:
    """Files of any size can be written, seen, read, written over and removed."""
    large = os.urandom(1 << 10) * (MOST >> 10)
    (tmp_path / "source").write_bytes(large)
    assert [] == folder.list("store")
    assert (False, None) == (folder.has("store/one.json"), folder.read("store/one.json"))
    assert not folder.fetch("store/one.json", tmp_path / "none", 1, print)
    folder.remove("store/one.json")
    before = datetime.now(timezone.utc).timestamp()
    folder.write("store/one.json", b"first")
    folder.write("store/one.json", b"1")
    folder.write("store/files/none", b"")
    folder.write("store/files/large", tmp_path / "source")
    found = {name: written for name, written, _ in folder.list("store")}
    assert {"store/one.json", "store/files/none", "store/files/large"} == set(found)
    assert all(when is not None and abs(when.timestamp() - before) < 600 for when in found.values())
    assert ["store/files/large", "store/files/none"] == sorted(one.name for one in folder.list("store/files"))
    assert (b"1", b"") == (folder.read("store/one.json"), folder.read("store/files/none"))
    digest = hashlib.sha256()
    assert folder.fetch("store/files/large", tmp_path / "target", len(large), digest.update)
    assert large == (tmp_path / "target").read_bytes()
    assert hashlib.sha256(large).digest() == digest.digest()
    assert folder.fetch("store/files/large", tmp_path / "target", 1_000, digest.update)
    assert large[:1_001] == (tmp_path / "target").read_bytes() == folder.read("store/files/large", 1_000)
    assert folder.has("store/one.json")
    assert not folder.has("store/files")
    assert not folder.copy("store/missing", "store/copied")
    assert folder.copy("store/files/large", "store/copied") == folder.has("store/copied")
    if folder.has("store/copied"):  # HDFS cannot copy.
        assert large == folder.read("store/copied")
        folder.remove("store/copied")
    assert len(large) == {name: size for name, _, size in folder.list("store")}["store/files/large"]
    folder.remove("store/one.json")
    folder.remove("store/files/none")
    assert ["store/files/large"] == [one.name for one in folder.list("store")]


@pytest.mark.parametrize("name", AWKWARD)
def test_local_paths_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    """No sign in a local path means anything; errors show the path as it was given."""
    folder = Folder(f"{tmp_path}/{name}/below/")
    folder.write("a/b", b"1")
    assert b"1" == (tmp_path / name / "below" / "a" / "b").read_bytes()
    assert (b"1", ["a/b"]) == (folder.read("a/b"), [one.name for one in folder.list("a")])
    assert f"{tmp_path}/{name}/below/a/b" == folder.where("a/b")


def test_local_folder(tmp_path: Path) -> None:
    """A local folder works, and so does a path with more slashes and dots than it needs."""
    assert_works(Folder(str(tmp_path / "folder")), tmp_path)
    assert_works(Folder(f"/{tmp_path}//x/.././other/"), tmp_path)


@pytest.mark.parametrize("start", ["file:", "file://", "file://localhost"])
@pytest.mark.parametrize(
    ("path", "means"),
    [
        ("/plain", "plain"),
        ("/a%20b%3F%23%25", "a b?#%"),
        ("/a b", "a b"),
        ("/ä", "ä"),
        ("/%C3%A4/", "ä"),
        ("//a/./b", "a/b"),
    ],
)
def test_file_uris(tmp_path: Path, start: str, path: str, means: str) -> None:
    """URIs of the scheme file are decoded, with any number of slashes in front."""
    folder = Folder(f"{start}{tmp_path}{path}")
    folder.write("a/b", b"1")
    assert b"1" == (tmp_path / means / "a" / "b").read_bytes()
    assert ["a/b"] == [one.name for one in folder.list("a")]
    assert str(tmp_path / means / "a" / "b") == folder.where("a/b")


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("", "'' is not absolute: give an absolute local path, or a URI"),
        ("snapshots", "'snapshots' is not absolute: give an absolute local path"),
        ("./a", r"'\./a' is not absolute"),
        ("../a", r"'\.\./a' is not absolute"),
        ("~/a", "'~/a' is not absolute"),
        ("dbfs:/a", "'dbfs:/a' is not absolute"),
        ("file:a", "'file:a' is not absolute"),
        ("file://host/a", "'file://host/a' is not absolute"),
        ("file:/a?b", r"'file:/a\?b' contains \? or #: write them as %3F and %23, or give a plain path"),
        ("file:///a#b", "'file:///a#b' contains . or #: write them as %3F and %23"),
        ("s4://bucket/a", "'s4://bucket/a' has an unknown scheme: .* or a URI of s3, gs, abfs or hdfs"),
        ("://a", "'://a' has an unknown scheme"),
        ("S3://bucket/a", "'S3://bucket/a' has an unknown scheme"),
        ("s3://", "'s3://' has no bucket"),
        ("s3:///a", "'s3:///a' has no bucket"),
        ("s3a://?region=eu-central-1", "has no bucket"),
        ("s3://bucket/a#b", r"'s3://bucket/a#\.\.\.' contains #: write it as %23"),
        ("s3:/key:secret@bucket/a", r"'\.\.\.' is not absolute"),
        ("s4://key:secret@bucket/a", r"'s4://\.\.\.' contains a password"),
    ],
)
def test_what_cannot_be_a_folder_is_refused(uri: str, told: str) -> None:
    """It is an error on the driver already, which names the folder and what is wanted, and no password."""
    for make in (Folder, SnapshotPolicy):
        with pytest.raises(StateError, match=told) as error:
            make(uri)
        assert "secret" not in str(error.value)


WITH_SECRETS = [
    ("s3://AKIA:hunter2@bucket/a", "password"),
    ("s3://AKIA:ab/hunter2@bucket/a", "password"),
    ("s3://AKIA:12/hunter2@bucket/a", "password"),
    ("s3://AKIA:a?b/hunter2@bucket/a", "password"),
    ("s3://AKIA%3Ahunter2@bucket/a", "password"),
    ("s3a://AKIA%3aab/hunter2@bucket/a", "password"),
    ("s3://AKIA:ab/hunter2%40bucket/a", "password"),
    ("s3:///AKIA:hunter2@bucket/a", "password"),
    ("s3://hunter2@bucket/a", "user"),
    ("s3://AKIA:hunter2", "password"),
    ("gs://hunter2@bucket/a", "user"),
    ("gs://anonymous:hunter2@bucket/a", "password"),
    ("abfs://account:hunter2@container/a", "password"),
    ("abfss://account:12/hunter2==@container/a", "password"),
    ("abfss://account%3Ase/hunter2==@container/a", "password"),
    ("hdfs://me:hunter2@host:8020/a", "password"),
    ("hdfs://me:ab/hunter2@host:8020/a", "password"),
    ("abfs://container@account/a?sig=hunter2", "query"),
    ("abfs://container@account/a?client_id=b&client_secret=hunter2&tenant_id=a", "query"),
    ("abfs://container@account/a?client%5Fsecret=hunter2", "query"),
    ("s3://bucket/a?hunter2", "query"),
    ("s3://bucket/a?region=x&sse_customer_key=hunter2", "query"),
    ("s3://bucket/a?region=x;sig=hunter2@y", "query"),
    ("s3://bucket/a?endpoint_override=http%3A%2F%2Fhunter2%40host", "password"),
    ("gs://bucket/a?endpoint_override=hunter2@host", "query"),
    ("hdfs://host/a?user=me:hunter2", "query"),
    ("hdfs://host/a?fs.s3a.secret.key=hunter2", "query"),
    ("s3://bucket/a?sig=hunter2#b", "#"),
]


@pytest.mark.parametrize(("uri", "told"), WITH_SECRETS)
def test_uris_with_secrets_are_refused(uri: str, told: str) -> None:
    """Wherever the secret is, whatever hides it; and the message does not show it."""
    for make in (Folder, SnapshotPolicy):
        with pytest.raises(StateError, match=f"the folder '.*' (contains|has) .*{told}") as error:
            make(uri)
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/users/me@here.com/a:b",
        "s3://bucket/a@b?endpoint_override=127.0.0.1:9000&scheme=http&region=eu-central-1",
        "s3a://bucket?allow_bucket_creation=true&tls_ca_file_path=/etc/ca.pem",
        "s3://bucket/a:b/c",
        "s3n://bucket/a?endpoint_override=http://localhost:9000&%72egion=x",
        "gs://anonymous@bucket/a?endpoint_override=localhost:1&scheme=http&retry_limit_seconds=1&project_id=p",
        "gcs://bucket.of.mine/a_b-c",
        "abfss://container@account.dfs.core.windows.net/users/me@here.com",
        "abfs://container@127.0.0.1:10000/a?enable_tls=false&credential_kind=anonymous",
        "hdfs://me@host:8020/users/me@here.com?replication=2&user=me@REALM",
        "hdfs://[::1]:8020/a",
        "hdfs:///a",
        "viewfs://cluster/a",
    ],
)
def test_uris_without_secrets_are_taken(uri: str) -> None:
    """With settings of the storage; messages show them without those."""
    assert f"{uri.partition('?')[0]}/b" == Folder(uri).where("b")
    assert uri == SnapshotPolicy(uri).folder


@pytest.mark.parametrize("uri", [uri for uri, told in WITH_SECRETS if told != "#"])
def test_stored_uris_with_secrets_are_not_shown(uri: str) -> None:
    """A pointer of before may have one."""
    assert "hunter2" not in Folder(uri, stored=True).where("b")


@pytest.mark.slow
def test_stored_uris_with_secrets_are_used(s3: S3) -> None:
    """The snapshots of an existing checkpoint can still be read; errors leave out what may show the secret."""
    uri = s3.uri("AKIA:hunter2@bucket/stored")
    Folder(s3.uri("bucket/stored")).write("a/b", b"1")
    assert b"1" == Folder(uri, stored=True).read("a/b")
    with pytest.raises(StateError, match=r"'s3://\.\.\.' cannot be used: ArrowInvalid") as error:
        Folder("s3://AKIA:ab/hunter2@bucket/a", stored=True).has("b")
    assert error.value.__cause__ is None
    assert "hunter2" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_s3_folder(s3: S3, tmp_path: Path, scheme: str) -> None:
    """A folder in S3 works, by each of its schemes."""
    folder = Folder(s3.uri(f"bucket/{scheme}/prefix/", scheme))
    assert_works(folder, tmp_path)
    assert f"{scheme}://bucket/{scheme}/prefix/a/b" == folder.where("a/b")


@pytest.mark.parametrize(
    "prefix", ["", "/", "/a b", "/ä", "/%C3%B6", "/100%25", "/a%23b%3Fc", "//a//b//", "/a&b=c"]
)
def test_s3_prefixes(s3: S3, prefix: str) -> None:
    """Any prefix will do, and none; it is decoded as URIs are."""
    folder = Folder(s3.uri(f"bucket{prefix}"))
    name = f"from-{prefix.encode().hex()}/b"
    folder.write(name, b"1")
    assert (b"1", [name]) == (folder.read(name), [one.name for one in folder.list(name.partition("/")[0])])
    folder.remove(name)
    assert not folder.has(name)


def test_s3_errors_name_the_place(s3: S3, tmp_path: Path) -> None:
    """A bucket that is not there, storage that says no, and options that are unknown are errors with names."""
    missing = Folder(s3.uri("nobucket/a"))
    with pytest.raises(StateError, match=r"cannot write s3://nobucket/a/b: .*restart the query"):
        missing.write("b", b"1")
    assert (None, []) == (missing.read("b"), missing.list("b"))
    folder = Folder(s3.uri("bucket/refused"))
    folder.write("a/b", b"1")
    s3.switch(fail=1)
    try:
        for act, told in [
            (lambda: folder.write("a/c", b"1"), "cannot write s3://bucket/refused/a/c: "),
            (lambda: folder.read("a/b"), "cannot read s3://bucket/refused/a/b: "),
            (
                lambda: folder.fetch("a/b", tmp_path / "x", 1, print),
                "cannot read s3://bucket/refused/a/b into .*/x",
            ),
            (lambda: folder.list("a"), "cannot list s3://bucket/refused/a: "),
            (lambda: folder.remove("a/b"), "cannot remove s3://bucket/refused/a/b: "),
        ]:
            with pytest.raises(StateError, match=told):
                act()
    finally:
        s3.switch()
    assert ["a/b"] == [one.name for one in folder.list("a")]
    with pytest.raises(StateError, match=r"'s3://bucket/a' cannot be used: .*scheme 'ftp'"):
        Folder("s3://bucket/a?scheme=ftp&region=x").has("b")


@pytest.mark.slow
def test_unreachable_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage that nobody answers for is an error that names the place."""
    monkeypatch.setattr(object_stores, "TRIES", 3)
    folder = Folder("s3://bucket/a?endpoint_override=127.0.0.1:1&scheme=http&region=eu-central-1")
    with pytest.raises(StateError, match=r"look for s3://bucket/a/b: .*127\.0\.0\.1"):
        folder.has("b")


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A local folder that cannot be made is an error that names the file; once it can, all is well."""
    (tmp_path / "folder").write_bytes(b"a file in the way")
    folder = Folder(str(tmp_path / "folder"))
    with pytest.raises(StateError, match=f"cannot write {tmp_path}/folder/a/b: .*restart the query"):
        folder.write("a/b", b"1")
    (tmp_path / "folder").unlink()
    folder.write("a/b", b"1")
    assert b"1" == folder.read("a/b")


def test_whether_a_folder_can_be_written(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is written and removed again; what keeps it from that is told, and storage that does not answer."""
    monkeypatch.setattr(object_stores, "TRIES", 1)  # While a client of S3 waits, Arrow makes no other one.
    for uri in (str(tmp_path / "new" / "folder"), s3.uri("bucket/probed")):
        assert Folder(uri).why_not_writable(60) is None
        assert Folder(uri).list("") == []
    (tmp_path / "file").write_text("in the way")
    assert "Not a directory" in str(Folder(str(tmp_path / "file" / "below")).why_not_writable(60))
    assert "nobucket" in str(Folder(s3.uri("nobucket/a")).why_not_writable(60))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}&scheme=http&region=eu-central-1"
        folder = Folder(f"s3://bucket/a?endpoint_override={place}")
        assert folder.why_not_writable(0.5) == "no answer within 0.5 s"
    for thread in threading.enumerate():
        if thread.name == "probe":
            thread.join(60)
            assert not thread.is_alive()


class Breaking(type(Path())):  # type: ignore[misc] - the class of this platform's paths
    """A local file that can be read only in part."""

    def open(self, *args: Any, **named: Any) -> Any:
        """Open it."""
        return BreakingFile()


class BreakingFile(io.BytesIO):
    """Gives a chunk, then an error."""

    left = 1

    def read(self, size: int | None = -1) -> bytes:
        if not self.left:
            raise OSError(5, "the disk is broken")
        self.left -= 1
        return bytes(1_000)


@pytest.mark.slow
def test_no_part_of_a_file_that_cannot_be_read(s3: S3, tmp_path: Path) -> None:
    """A local file that is not there, or that breaks off, leaves nothing in the folder."""
    for folder in (Folder(str(tmp_path / "folder")), Folder(s3.uri("bucket/broken"))):
        for source in (tmp_path / "none", Breaking("broken")):
            with pytest.raises(StateError, match=r"cannot write .*/a/b: "):
                folder.write("a/b", source)
            assert [] == folder.list("a")


WRITER = """
import sys
from pathlib import Path
from state_backends.durability.folders import Folder

folder, source = Folder(sys.argv[1]), Path(sys.argv[2])
number = 0
while True:
    print("writing", flush=True)
    folder.write(f"store/files/{'0' * 64}-0-{number}", source)
    number += 1
"""


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_killed_writes_leave_whole_files(s3: S3, tmp_path: Path, kind: str) -> None:
    """A process killed while it writes leaves whole files under their names, or parts that are cleaned up some day."""
    large = os.urandom(1 << 10) * (MOST >> 10)
    (tmp_path / "source").write_bytes(large)
    uri = str(tmp_path / "folder") if kind == "local" else s3.uri("bucket/killed")
    folder = Folder(uri)
    parts: list[str] = []
    for count in (3, 1, 5, 2) if kind == "local" else (2, 1):
        command = [sys.executable, "-c", WRITER, uri, str(tmp_path / "source")]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        with child.stdout:
            for _ in range(count):
                assert b"writing\n" == child.stdout.readline()
            # The next write is about to begin; not without an end, should there never be a part.
            found: list[str] = []
            while kind == "local" and not any(name.endswith(".part") for name in found) and len(found) < 20:
                found = [name for name, *_ in folder.list("store")]
            child.kill()
        child.wait()
        whole = [name for name, *_ in folder.list("store") if not name.endswith(".part")]
        parts = [name for name, *_ in folder.list("store") if name.endswith(".part")]
        assert count - 1 <= len(whole)
        assert all(large == folder.read(name) for name in whole)
        for name in whole:
            folder.remove(name)
    assert (kind == "local") >= bool(parts)
    snapshots, newest = SnapshotFolder(folder, "store"), ["1-newest"]
    snapshots.clean(newest, [])
    assert parts == [name for name, *_ in folder.list("store")]
    for name in parts:
        os.utime(tmp_path / "folder" / name, (0, 0))
    snapshots.clean(newest, [])
    assert [] == folder.list("store")
