"""The layout of the packages is what their names say: imports point one way, and modules stay short."""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
LAYERS = {
    "serializers": {"serializers"},
    "state_backends": {"serializers", "state_backends"},
    "operators": {"serializers", "state_backends", "operators"},
}
TESTING = {"hypothesis", "pytest"}
MODULES = sorted(path.relative_to(ROOT) for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
SPARK = {"pyspark", "py4j"}
SPARK_EDGE = ("spark",)
CHECKPOINTS = Path("state_backends/checkpoints")


def imports(module: Path) -> set[str]:
    """The top-level names of all that a module imports, wherever in it."""
    return {name for node in ast.walk(parsed(module)) for name in imported(node, module)}


def module_level_imports(module: Path) -> set[str]:
    """The top-level names of what a module imports when it is imported itself."""
    return {name for node in executed(parsed(module)) for name in imported(node, module)}


def parsed(module: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse((ROOT / module).read_text())


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: no function bodies, nothing for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from executed(child)


def imported(node: ast.AST, module: Path) -> set[str]:
    """The top-level names that one statement imports; a relative import is of the module's own package."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {module.parts[0] if node.level else str(node.module).partition(".")[0]}
    return set()


def test_all_layers_have_modules() -> None:
    """Every layer is a package with modules, so that the tests below look at something."""
    for layer in LAYERS:
        assert Path(layer, "__init__.py") in MODULES
        assert 2 < sum(module.parts[0] == layer for module in MODULES)


def offenders(forbidden: Callable[[Path], set[str]]) -> dict[str, set[str]]:
    """The modules that have something they should not, with what it is."""
    return {str(module): found for module in MODULES if (found := forbidden(module))}


def test_imports_point_one_way() -> None:
    """A layer imports only itself and those below it: operators, state_backends, serializers."""
    assert {} == offenders(lambda module: imports(module) & set(LAYERS) - LAYERS[module.parts[0]])


def test_nothing_imports_the_tests() -> None:
    """The packages import no tests, benchmarks or examples, and test tools only in what is shipped for tests."""
    shipped = {Path("state_backends/contract"), Path("operators/testing")}
    forbidden = {"tests", "benchmarks", "examples", "oracle", "conftest"}
    assert {} == offenders(
        lambda module: imports(module) & (forbidden | (set() if shipped & {*module.parents} else TESTING))
    )


def test_spark_is_imported_at_the_edge() -> None:
    """Only the runtime and the helpers for sessions import Spark at module level; below, what reads checkpoints uses it."""

    def spark(module: Path) -> set[str]:
        if module.parts[0] != "operators" and module.parent != CHECKPOINTS:
            return imports(module) & SPARK
        return set() if module.parts[1] in SPARK_EDGE else module_level_imports(module) & SPARK

    assert {} == offenders(spark)


def test_modules_stay_short() -> None:
    """No module has more than 400 lines."""
    lengths = {str(module): len((ROOT / module).read_text().splitlines()) for module in MODULES}
    assert {} == {module: length for module, length in lengths.items() if length > MOST_LINES}


def test_modules_say_what_they_are_for() -> None:
    """Every module that holds anything begins with a docstring."""
    assert [] == [
        str(module) for module in MODULES if parsed(module).body and not ast.get_docstring(parsed(module))
    ]


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        ("serializers", {"pyspark", "operators", "state_backends", "rocksdict", *TESTING}),
        ("state_backends", {"pyspark", "operators", "rocksdict", *TESTING}),
        ("operators", {"pyspark", "py4j", "rocksdict", *TESTING}),
    ],
)
def test_import_stays_light(package: str, absent: set[str]) -> None:
    """Importing a package loads no Spark, no backend that is not used, no layer above, and no test tools."""
    code = f"import sys, {package}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set() == absent & set(done.stdout.split())
