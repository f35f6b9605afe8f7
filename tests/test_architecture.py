"""The layout of the packages is what their names say: imports point one way, nothing goes in circles, modules stay short."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
MOST_FILES_AT_ROOT = 4
PACKAGES = ("serializers", "state_backends", "operators")
"""Each imports only those before it, and itself."""
ORDER = {
    "operators": (
        "errors",
        "columns",
        "aggregates",
        "kinds",
        "steps",
        "engines custom",
        "runtime",
        "monitoring",
        "spark",
        "explain sinks",
        "definitions",
        "testing",
        "__init__",
        "command",
        "__main__",
    ),
    "state_backends": (
        "errors",
        "chunks journal synced uris",
        "interface",
        "registry sqlite_journal",
        "store",
        "backends",
        "durability",
        "config",
        "checkpoints",
        "contract __init__",
    ),
}
"""Folders and root modules, from the lowest up: each imports only lower ones. Those of one line do not know each other."""
TESTING = {"hypothesis", "pytest"}
ROOMS_OF_SPARK = ("base", "inputs", "batch", "replicas", "stream", "state apply daemon", "with_late")
SPARK = {"pyspark", "py4j"}
MODULES = sorted(path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def dotted(module: Path) -> str:
    """A module's name."""
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


KNOWN = {dotted(module): module for module in MODULES}


def parsed(module: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse((ROOT / module).read_text())


def imported(node: ast.AST) -> Iterator[str]:
    """The modules, or names of modules, that one statement imports; also `import_module("...")`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "relative imports hide where a name comes from"
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            yield name if name in KNOWN else str(node.module)


def imports(module: Path) -> set[str]:
    """All that a module imports, wherever in it: in functions and for type checkers, too."""
    return {name for node in ast.walk(parsed(module)) for name in imported(node)}


def top_level(names: Iterable[str]) -> set[str]:
    """The packages of modules."""
    return {name.partition(".")[0] for name in names}


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: no function bodies, nothing for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from executed(child)


def offenders(forbidden: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """The modules that have something they should not, with what it is."""
    return {str(module): found for module in MODULES if (found := forbidden(module))}


def circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of two or more that reach each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(arrows.get(name, ())):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in sorted(arrows):
        if name not in index:
            visit(name)
    return found


def files() -> dict[str, set[str]]:
    """Which modules of ours each module imports."""
    return {
        name: {other for other in imports(module) if other in KNOWN and other != name}
        for name, module in KNOWN.items()
    }


def folders() -> dict[str, set[str]]:
    """Which folders of ours the modules of each folder import."""
    arrows: dict[str, set[str]] = {}
    for name, others in files().items():
        here = str(KNOWN[name].parent)
        arrows.setdefault(here, set()).update({str(KNOWN[other].parent) for other in others} - {here})
    return arrows


def test_all_packages_have_modules() -> None:
    """Every package has modules, so that the tests below look at something."""
    for package in PACKAGES:
        assert Path(package, "__init__.py") in MODULES
        assert 2 < sum(module.parts[0] == package for module in MODULES)


def test_imports_point_one_way() -> None:
    """A package imports only itself and those below it: operators, state_backends, serializers."""

    def above(module: Path) -> set[str]:
        return top_level(imports(module)) & set(PACKAGES[PACKAGES.index(module.parts[0]) + 1 :])

    assert {} == offenders(above)


def test_nothing_imports_in_circles() -> None:
    """No circle of modules and none of folders; imports in functions and for type checkers count."""
    assert [] == circles(files())
    whole = {name: others for name, others in folders().items() if name not in PACKAGES}
    assert [] == circles({name: others - set(PACKAGES) for name, others in whole.items()})


def test_circles_are_found() -> None:
    """What looks for circles finds them."""
    assert [["a", "b", "c"], ["e", "f"]] == circles(
        {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "e": {"f"}, "f": {"e"}}
    )
    assert [] == circles({"a": {"b", "c"}, "b": {"c"}})


@pytest.mark.parametrize("package", ORDER)
def test_folders_keep_their_order(package: str) -> None:
    """A folder imports only folders that stand before it in `ORDER`, and itself."""
    height = {name: number for number, line in enumerate(ORDER[package]) for name in line.split()}
    there = {
        module.relative_to(package).parts[0].removesuffix(".py")
        for module in MODULES
        if module.parts[0] == package
    }
    assert there == set(height)

    def part(name: str) -> str:
        return KNOWN[name].relative_to(package).parts[0].removesuffix(".py")

    backwards = {
        f"{name} -> {other}"
        for name, others in files().items()
        for other in others
        if name.partition(".")[0] == other.partition(".")[0] == package
        and part(name) != part(other)
        and height[part(other)] >= height[part(name)]
    }
    assert set() == backwards


@pytest.mark.slow
def test_the_rooms_of_spark_keep_their_order() -> None:
    """A room of `operators/spark` imports only rooms that stand before it, and itself."""
    home = Path("operators/spark")
    height = {name: number for number, line in enumerate(ROOMS_OF_SPARK) for name in line.split()}
    room = {
        name: path.relative_to(home).parts[0].removesuffix(".py")
        for name, path in KNOWN.items()
        if home in path.parents and path != home / "__init__.py"
    }
    assert set(room.values()) == set(height)
    backwards = {
        f"{name} -> {other}"
        for name, others in files().items()
        for other in others
        if name in room
        and other in room
        and room[name] != room[other]
        and height[room[other]] >= height[room[name]]
    }
    assert set() == backwards


def test_few_files_at_the_root() -> None:
    """At the root of operators is what is common to all folders, and nothing else."""
    assert len(list((ROOT / "operators").glob("*.*"))) <= MOST_FILES_AT_ROOT


def test_nothing_imports_the_tests() -> None:
    """The packages import no tests, benchmarks or examples, and test tools only in what is shipped for tests."""
    shipped = {Path("state_backends/contract"), Path("operators/sinks/contract"), Path("operators/testing")}
    forbidden = {"tests", "benchmarks", "examples", "oracle", "conftest"}
    assert {} == offenders(
        lambda module: (
            top_level(imports(module)) & (forbidden | (set() if shipped & {*module.parents} else TESTING))
        )
    )


def test_spark_is_imported_at_the_edge() -> None:
    """Only what runs on Spark imports it at module level; below operators, only what reads checkpoints uses it."""

    def spark(module: Path) -> set[str]:
        if module.parts[0] != "operators" and module.parent != Path("state_backends/checkpoints"):
            return top_level(imports(module)) & SPARK
        if module.parts[1] == "spark":
            return set()
        return top_level(name for node in executed(parsed(module)) for name in imported(node)) & SPARK

    assert {} == offenders(spark)


INSIDE = {
    Path("operators/spark/base/inside.py"),
    Path("operators/spark/daemon.py"),
    Path("state_backends/checkpoints/metadata.py"),
    Path("state_backends/checkpoints/labels.py"),
}
"""Where what Spark does not promise is used. `daemon.py` is a module that Spark runs by its name."""
NOT_PROMISED = {
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.logger",
    "pyspark.core",
    "py4j",
    "pyspark.java_gateway",
}
UNDOCUMENTED = {"explain", "getCondition", "getErrorClass", "pythonExec", "to_proto", "getLocalProperty"}
CONDITION = re.compile(r"_?[A-Z0-9]+(_[A-Z0-9]+){2,}(\.[A-Z0-9_]+)?")
OWN_VARIABLES = ("SPARK_", "PYSPARK_", "OTEL_", "XDG_")


def of_inside(module: Path) -> set[str]:
    """What a module that has to do with Spark uses of its inside: private attributes, names of conditions, and the like."""
    text = (ROOT / module).read_text()
    if "spark" not in text:
        return set()
    found = {name for name in imports(module) for other in NOT_PROMISED if f"{name}.".startswith(f"{other}.")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute | ast.Call):
            own = ast.unparse(node.value) in {"self", "cls", "super()", "os"}
            private = (
                node.attr.startswith("_")
                and not node.attr.startswith("__")
                and node.attr not in own_attributes()
            )
            if (private and not own) or node.attr in UNDOCUMENTED:
                found.add(node.attr)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            condition = CONDITION.fullmatch(node.value)
            if condition and not node.value.startswith(OWN_VARIABLES):
                found.add(node.value)
            if re.fullmatch(r"_j\w+|_cached_\w+|_plan|(streaming\.)?sql\.(streaming|batchId).*", node.value):
                found.add(node.value)
    return found


@functools.cache
def own_attributes() -> set[str]:
    """Private names of our own classes, functions and fields."""
    return {
        name
        for module in MODULES
        if module not in INSIDE
        for node in ast.walk(parsed(module))
        for name in defined(node)
        if name.startswith("_")
    }


def defined(node: ast.AST) -> Iterator[str]:
    """The names that a statement defines, of fields and attributes of an object itself, too."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    ):
        yield node.attr


@pytest.mark.slow
def test_sparks_inside_is_in_one_place() -> None:
    """What Spark does not promise is used in few modules, which have a test for each part of it."""
    assert {} == offenders(lambda module: set() if module in INSIDE else of_inside(module))
    assert {} == {
        str(module): "uses nothing of it"
        for module in INSIDE - {Path("state_backends/checkpoints/labels.py")}
        if not of_inside(module)
    }
    tested = (ROOT / "tests/operators/spark/test_inside.py").read_text()
    functions = [
        node.name
        for node in parsed(Path("operators/spark/base/inside.py")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    untested = [name for name in functions if f"inside.{name}(" not in tested]
    assert [] == untested


def test_the_driver_s_python_loads_no_arrow() -> None:
    """Spark starts one before a query's first batch, and waits until it has loaded the processor."""
    code = "import sys, operators.spark.stream.processor; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert set() == {"numpy", "pyarrow", "pandas", "operators.runtime", "operators.spark.replicas"} & {
        *loaded
    }


def test_modules_stay_short() -> None:
    """No module has more than 400 lines."""
    lengths = {str(module): len((ROOT / module).read_text().splitlines()) for module in MODULES}
    assert {} == {module: length for module, length in lengths.items() if length > MOST_LINES}


def test_modules_say_what_they_are_for() -> None:
    """Every module that holds anything begins with a docstring."""
    assert [] == [
        str(module) for module in MODULES if parsed(module).body and not ast.get_docstring(parsed(module))
    ]


def test_tests_mirror_the_tree() -> None:
    """Every folder of tests of a package is one of the package's."""
    for package in PACKAGES:
        tested = {
            path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests" / package).rglob("test_*.py")
        }
        assert {str(path) for path in tested} <= {str(module.parent) for module in MODULES}


HEAVY = {"pyspark", "py4j", "rocksdict", "sqlite3", "psycopg", "deltalake", "confluent_kafka", *TESTING}
HEAVY |= {"pandas", "matplotlib", "redis"}


@pytest.mark.parametrize(
    ("code", "absent", "most_modules"),
    [
        ("import serializers", {"operators", "state_backends", *HEAVY}, 20),
        ("import state_backends", {"operators", *HEAVY}, 5),
        ("import operators", HEAVY, 2),
        ("from operators import SlidingWindows, aggregates", HEAVY, 147),
        ("from operators.sinks import DeltaSink, KafkaSink, PostgresSink, SQLiteSink, upsert_to", HEAVY, 42),
    ],
)
def test_import_stays_light(code: str, absent: set[str], most_modules: int) -> None:
    """What users import first loads no Spark, no database, no test tools, and no more of ours than it needs."""
    code = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert set() == absent & {name.partition(".")[0] for name in loaded}
    ours = [name for name in loaded if name.partition(".")[0] in PACKAGES]
    assert len(ours) <= most_modules, sorted(ours)
