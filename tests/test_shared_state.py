"""What a process has once, and threads share: each such thing is on a list, with the reason why that is safe.

Buckets of a process are worked on one at a time (`operators/spark/base/user_code_lock.py`), but snapshots are uploaded beside
them, and a program may have local runners in several threads.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = "operators", "serializers", "state_backends"
MUTABLE = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
HARMLESS = {
    "BlobFormat",
    "Decimal",
    "MappingProxyType",
    "Metric",
    "Path",
    "SQL",
    "Slicing",
    "Strategy",
    "TypeVar",
    "ParamSpec",
    "bool_",
    "bytes",
    "bytes.fromhex",
    "dataclass",
    "date",
    "datetime",
    "dict.fromkeys",
    "field",
    "frozenset",
    "int.from_bytes",
    "logging.getLogger",
    "namedtuple",
    "np.dtype",
    "np.iinfo",
    "np.int64",
    "no_analysis_needed",
    "np.uint64",
    "os.getpid",
    "pack_value",
    "pa.field",
    "pa.schema",
    "pa.struct",
    "range",
    "pytest.mark.parametrize",
    "re.compile",
    "refusing",
    "str",
    "struct.Struct",
    "sysconfig.get_path",
    "timedelta",
    "tuple",
}
"""Calls whose results nothing changes. Any other call at the top of a module or class has to be on the list."""
FIXED = "nothing changes it"
FLAT_CACHE = "what it returns cannot be changed; made twice, it is equal"
LOCK = "a lock"
TASK = "read and written by the task of a worker, which has one at a time"
SHARED = {
    "operators.aggregates.fold_operation._UNKNOWN": FIXED,
    "operators.aggregates.hyperloglog._COUNTED_ALONE": FIXED,
    "operators.aggregates.hyperloglog._sigma": FLAT_CACHE,
    "operators.aggregates.kll._tables": "arrays that are read alone; made twice, they are equal",
    "operators.aggregates.operations._WIDE": "operations set flags of the context, which nobody reads",
    "operators.aggregates.picks._sign": FIXED,
    "operators.definitions.custom._ticks": FLAT_CACHE,
    "operators.monitoring.files.ALERTS": FIXED,
    "operators.monitoring.files.DASHBOARD": FIXED,
    "operators.runtime.freed_memory.keep_freed_memory": FLAT_CACHE,
    "operators.sinks.contract.base.NOT_FINITE": FIXED,
    "operators.sinks.contract.values._CENTS": FIXED,
    "operators.sinks.contract.values._NOON": FIXED,
    "operators.sinks.published._columns": FLAT_CACHE,
    "operators.sinks.contract.values._ZONED": FIXED,
    "operators.sinks.json_rows._TEXT": FIXED,
    "operators.spark.base.inside._ENVIRONMENT": LOCK,
    "operators.spark.base.logs._warned": "a text that two threads add at once is logged twice",
    "operators.spark.base.session._able": "a path that two threads add at once is tried twice",
    "operators.spark.base.user_code_lock._turn": LOCK,
    "operators.spark.base.workers._modules": "two threads at once set objects aside twice",
    "operators.spark.replicas.copies._changing": LOCK,
    "operators.spark.replicas.copies._copies": "under `_changing`; a copy itself is held by one thread",
    "operators.spark.replicas.forget_lookup._folder": "its folders hold filesystems of Arrow, which threads may share",
    "operators.spark.replicas.forget_lookup._listed": "replaced as a whole: a thread uses what it has listed itself",
    "operators.spark.replicas.forget_lookup._noted": TASK,
    "operators.spark.replicas.starting._started": TASK,
    "operators.spark.replicas.starting._starter": "set before the daemon has threads",
    "operators.spark.replicas.where_held._resting": TASK,
    "operators.spark.stream.bucket_task.RESULT_TYPES": FIXED,
    "operators.spark.stream.spark_journal._KEY": FIXED,
    "operators.spark.stream.spark_journal._VALUE": FIXED,
    "operators.steps.late_reports._NONE": FIXED,
    "operators.steps.timed_store.NO_KEYS": FIXED,
    "serializers.bodies._BYTES": FIXED,
    "serializers.key_writing._BYTES": FIXED,
    "serializers.pages._few_nones": FLAT_CACHE,
    "serializers.shapes._SHORT": "texts are made of limits that are set on import",
    "serializers.values._DATE_EPOCH": FIXED,
    "state_backends.contract.base.Contract.options": "replaced by classes that inherit it, and not written to",
    "state_backends.contract.states._SHORT": "texts are made of limits that are set on import",
    "state_backends.durability.changelog._SIZE": FIXED,
    "state_backends.durability.pointer.NO_VERSION": FIXED,
    "state_backends.durability.snapshots._digests": "texts by the identities of files: read and written in one step each",
    "state_backends.uris.SCHEMES": FIXED,
}
"""What there is, and why threads may share it."""
UNSAFE = """
import threading
known = {}
never_written = {1: 2}
packer = msgpack.Packer()
if True:
    guard = threading.Lock()
class Reader:
    seen = []
def note(name):
    known[name] = True
@lru_cache
def cached(): ...
@np.errstate(all="ignore")
def quiet(): ...
counter = 0
def count():
    global counter
"""


def called(node: ast.expr) -> str:
    """The name of what a call calls; "" for anything else."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def is_written(tree: ast.Module, name: str) -> bool:
    """Whether functions of a module change its attribute of this name in place, or set it anew."""
    changing = {
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "update",
    }
    for node in ast.walk(tree):
        match node:
            case ast.Global(names) if name in names:
                return True
            case ast.Call(ast.Attribute(ast.Name(id=owner), method)) if owner == name and method in changing:
                return True
            case ast.Subscript(ast.Name(id=owner), ctx=ast.Store() | ast.Del()) if owner == name:
                return True
            case ast.AugAssign(ast.Name(id=owner)) if owner == name:
                return True
    return False


def statements(body: Iterable[ast.stmt], within: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """What is executed when a module is imported, with the name of the class around it."""
    for node in body:
        yield within, node
        match node:
            case ast.ClassDef(name, body=inner):
                yield from statements(inner, f"{within}{name}.")
            case ast.If(body=inner, orelse=rest):
                yield from statements([*inner, *rest], within)
            case ast.Try(body=inner, orelse=rest, finalbody=last):
                yield from statements([*inner, *rest, *last], within)
            case ast.With(body=inner):
                yield from statements(inner, within)


def shared(source: str, module: str) -> Iterator[str]:
    """The names of what a module has once and may change: containers that it writes to, caches, and results of calls."""
    tree = ast.parse(source)
    changed = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    yield from (f"{module}.{name}" for name in sorted(changed))
    for within, node in statements(tree.body):
        match node:
            case ast.FunctionDef(name, decorator_list=found) if any(
                is_cache(one) or holds_state(one) for one in found
            ):
                yield f"{module}.{within}{name}"
                continue
            case ast.Assign(targets=targets, value=value):
                names = [ast.unparse(target) for target in targets]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                names = [ast.unparse(target)]
            case _:
                continue
        for name in names:
            container = isinstance(value, MUTABLE) and (is_written(tree, name) or within)
            if name not in changed and name != "__all__" and (container or is_made(value)):
                yield f"{module}.{within}{name}"


def is_cache(decorator: ast.expr) -> bool:
    """Whether a decorator keeps what a function returns, for all its callers."""
    return ast.unparse(decorator).split("(")[0].split(".")[-1] in {"cache", "lru_cache"}


def holds_state(decorator: ast.expr) -> bool:
    """Whether calls share an object that a decorator made, as `np.errstate` of NumPy 1.26 does: it holds what to go back to."""
    return is_made(decorator) and not is_cache(decorator)


def is_made(value: ast.expr) -> bool:
    """Whether a value is what a call returns that may be changed later."""
    return isinstance(value, ast.Call) and called(value) not in HARMLESS


def test_what_threads_share_is_on_the_list() -> None:
    """All of it, and nothing else."""
    found = {
        name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in shared(path.read_text("utf-8"), ".".join(path.relative_to(ROOT).with_suffix("").parts))
    }
    assert set(SHARED) == found


def test_new_ones_are_found() -> None:
    """Containers that are written to, also those of classes, locks, caches, globals and objects whose calls may change them."""
    names = ["cached", "counter", "guard", "known", "packer", "quiet", "Reader.seen"]
    assert {f"module.{name}" for name in names} == set(shared(UNSAFE, "module"))
