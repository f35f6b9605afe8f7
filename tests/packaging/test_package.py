"""What is published: a wheel and a source distribution, and that what was installed from them works without the source tree."""

import os
import re
import subprocess
import sys
import tarfile
from email.parser import Parser
from importlib.metadata import requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = ("operators", "serializers", "state_backends")


def run(*command: object, cwd: Path, **env: str) -> str:
    """Run a command to its end and return what it printed."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the source distribution of this tree, in one folder."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    (path,) = built.glob("*-py3-none-any.whl")
    return path


@pytest.fixture(scope="module")
def unpacked(built: Path) -> Path:
    """The source distribution, unpacked."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(built, filter="data")
    return built / path.name.removesuffix(".tar.gz")


def contents(wheel: Path) -> dict[str, bytes]:
    """Each file of a wheel."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def sources(root: Path) -> set[str]:
    """The files of the packages in a tree."""
    paths = (path for package in PACKAGES for path in (root / package).rglob("*"))
    return {
        str(path.relative_to(root)) for path in paths if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    """The wheel has every file of the three packages, each package with the mark of its types, the licence, and no tests."""
    files = contents(wheel)
    info = next(name for name in files if name.endswith("/METADATA")).removesuffix("/METADATA")
    assert sources(ROOT) == {name for name in files if not name.startswith(info)}
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(files)
    assert (ROOT / "LICENSE").read_bytes() == files[f"{info}/licenses/LICENSE"]


def test_metadata_says_what_is_needed(wheel: Path) -> None:
    """The wheel's metadata has the README, the oldest Python, every dependency with a lowest version, and the extras."""
    text = next(data for name, data in contents(wheel).items() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(text.decode())
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert ">=3.10" == metadata["Requires-Python"]
    assert {"pyspark", "pyarrow", "rocksdict"} <= {
        line.partition(">")[0].partition("<")[0] for line in needed
    }
    assert [] == [line for line in needed if ">=" not in line]
    assert {"connect", "java", "opentelemetry", "prometheus"} <= set(metadata.get_all("Provides-Extra", []))
    assert (ROOT / "README.md").read_text() == metadata.get_payload()


def test_the_line_for_platforms_names_what_they_lack(wheel: Path) -> None:
    """Each dependency, but for what comes with Spark; nothing else is installed, since none of them has dependencies."""
    text = next(data for name, data in contents(wheel).items() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(text.decode())
    needed = {
        re.split(r"[^\w-]", one)[0] for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one
    }
    pages = [(ROOT / name).read_text("utf-8").splitlines() for name in ("docs/cluster.md", "README.md")]
    (line,) = {line for lines in pages for line in lines if line.startswith("pip install --no-deps ")}
    assert all(line in lines for lines in pages)
    _, _, _, file, *names = line.split()
    assert wheel.name == file
    assert needed - {"numpy", "pandas", "protobuf", "pyarrow", "pyspark"} == {*names}
    of_these = [Requirement(one) for name in names for one in requires(name) or []]
    assert [] == [one for one in of_these if one.marker is None or one.marker.evaluate({"extra": ""})]


@pytest.mark.slow
def test_source_distribution_makes_the_same_wheel(unpacked: Path, wheel: Path) -> None:
    """The source distribution has what this tree has to build, test and read, no stray files, and builds the same wheel."""
    found = {path.name for path in unpacked.iterdir()}
    assert {"LICENSE", "Makefile", "README.md", "pyproject.toml", "docs", "examples", "tests"} <= found
    assert [".gitignore"] == [name for name in found if name.startswith(".")]
    assert (unpacked / "tests" / "conformance" / "cases").is_dir()
    run("-m", "hatchling", "build", "-t", "wheel", "-d", unpacked / "again", cwd=unpacked)
    (again,) = (unpacked / "again").iterdir()
    assert contents(wheel) == contents(again)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip installs from the wheel."""
    target = tmp_path_factory.mktemp("installed")
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel, cwd=target)
    return target


def test_installed_package_works_elsewhere(wheel: Path, installed: Path, tmp_path: Path) -> None:
    """A program in another directory runs with what was installed from the wheel, native store and all."""
    program = tmp_path / "program.py"
    program.write_bytes((ROOT / "tests" / "packaging" / "user_program.py").read_bytes())
    file, version, rows = run(program, cwd=tmp_path, PYTHONPATH=str(installed)).split()
    assert installed / "operators" / "__init__.py" == Path(file)
    assert wheel.name.split("-")[1] == version
    assert "a23" == rows
    version_of = run("-m", "operators", "--version", cwd=tmp_path, PYTHONPATH=str(installed))
    assert version in version_of


def test_installed_package_finds_a_module_that_hides_one_of_its_own(installed: Path, tmp_path: Path) -> None:
    """A program of a user, with a module of the same name beside it."""
    hiding = tmp_path / "serializers.py"
    hiding.touch()
    (tmp_path / "job.py").write_text(
        "try:\n    import operators\nexcept ImportError as error:\n    print(error)\n"
    )
    said = run("job.py", cwd=tmp_path, PYTHONPATH=str(installed))
    assert f"{hiding} is found before {installed / 'serializers'}" in said


def test_the_wheel_has_the_command(wheel: Path) -> None:
    """Pip makes a script `windows` of it."""
    (entries,) = [data for name, data in contents(wheel).items() if name.endswith("entry_points.txt")]
    assert "[console_scripts]\nwindows = operators.command.main:main\n" in entries.decode()
