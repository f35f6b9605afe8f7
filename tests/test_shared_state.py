"""What a process has once, and threads share: each such thing is on a list, with the reason why that is safe.

A process works on one bucket after the other, on its main thread (`operators/spark/replicas/bucket_service.py`), but snapshots
are uploaded beside that, and a program may have local runners in several threads. So is each function that sets something for
the whole process.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = "operators", "serializers", "state_backends"
CHANGING = {
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
"""Methods that change containers."""
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
    "pa.timestamp",
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
    "operators.columns.zones._extremes": FLAT_CACHE,
    "operators.columns.zones._text_of": FLAT_CACHE,
    "operators.kinds.calendars._days_of": FLAT_CACHE,
    "operators.kinds.calendars._starts": "arrays that are read alone; made twice, they are equal",
    "operators.monitoring.files.ALERTS": FIXED,
    "operators.monitoring.files.DASHBOARD": FIXED,
    "operators.runtime.freed_memory.keep_freed_memory": FLAT_CACHE,
    "operators.sinks.contract.base.NOT_FINITE": FIXED,
    "operators.sinks.contract.values._CENTS": FIXED,
    "operators.sinks.contract.values._NOON": FIXED,
    "operators.sinks.page_search._HEAD": FIXED,
    "operators.sinks.page_search._IDLE": FIXED,
    "operators.sinks.published._columns": FLAT_CACHE,
    "operators.sinks.published.decoded_head": FLAT_CACHE,
    "operators.sinks.contract.values._ZONED": FIXED,
    "operators.sinks.json_rows._TEXT": FIXED,
    "operators.sinks.kafka_messages._BYTES": FIXED,
    "operators.spark.base.inside._ENVIRONMENT": LOCK,
    "operators.spark.base.logs._warned": "a text that two threads add at once is logged twice",
    "operators.spark.base.loopback._STARTING": LOCK,
    "operators.spark.base.session._able": "a path that two threads add at once is tried twice",
    "operators.spark.base.workers._modules": "two threads at once set objects aside twice",
    "operators.spark.replicas.copies._copies": TASK,
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
SET_FOR_ALL = {
    "atexit.register",
    "csv.field_size_limit",
    "decimal.getcontext",
    "decimal.setcontext",
    "faulthandler.enable",
    "gc.disable",
    "gc.enable",
    "gc.freeze",
    "getcontext",
    "locale.setlocale",
    "logging.basicConfig",
    "logging.disable",
    "np.random.seed",
    "np.set_printoptions",
    "np.seterr",
    "np.seterrcall",
    "os.chdir",
    "os.nice",
    "os.putenv",
    "os.register_at_fork",
    "os.setpgid",
    "os.setsid",
    "os.umask",
    "os.unsetenv",
    "pa.set_cpu_count",
    "pa.set_io_thread_count",
    "pa.set_memory_pool",
    "random.seed",
    "resource.setrlimit",
    "setcontext",
    "signal.signal",
    "socket.setdefaulttimeout",
    "sys.addaudithook",
    "sys.setprofile",
    "sys.setrecursionlimit",
    "sys.setswitchinterval",
    "sys.settrace",
    "time.tzset",
    "warnings.catch_warnings",
    "warnings.filterwarnings",
    "warnings.resetwarnings",
    "warnings.simplefilter",
}
"""Calls that set something for all threads of a process, or for the thread in which other code goes on."""
HELD_BY_ALL = {
    "os.environ",
    "sys.argv",
    "sys.excepthook",
    "sys.meta_path",
    "sys.modules",
    "sys.path",
    "sys.path_importer_cache",
    "sys.stderr",
    "sys.stdin",
    "sys.stdout",
}
"""What all threads of a process have in common."""
BEGIN = "as a process begins, before it has other threads"
COMMAND = "a program of its own, in which no other thread writes files, loads modules or logs"
CHILD = "in a process that a test of the contract has forked or started"
ONCE = "as often as it is called, it is the same"
SET = {
    "operators.command.inputs.operator_of": COMMAND,
    "operators.command.main._logs": COMMAND,
    "operators.command.outputs._mode": COMMAND,
    "operators.spark.base.idle.IdleListener.begin": "a method that is called at the end; each belongs to one query",
    "operators.spark.base.java.ensure_java": ONCE,
    "operators.spark.base.listener._listen": "a function that is called at the end; each belongs to one session",
    "operators.spark.base.loopback.on_loopback": "under `_STARTING`",
    "operators.spark.base.session.spark_session": ONCE,
    "operators.spark.base.workers.prepare_worker": "`gc.freeze` sets objects aside, in one step",
    "operators.spark.daemon": BEGIN,
    "operators.spark.daemon.load": BEGIN,
    "operators.spark.replicas.bucket_service._load_functions": "folders are added in one step; twice, they are found once",
    "operators.spark.replicas.orders.Order.take_over": BEGIN,
    "operators.spark.replicas.starter._serve": BEGIN,
    "operators.spark.replicas.starter.fork_starter": BEGIN,
    "operators.spark.replicas.state_process.main": BEGIN,
    "state_backends.checkpoints.reading.plain_path": "a function that is called at the end; each has a folder of its own",
    "state_backends.contract.lines.Lines.watched": CHILD,
    "state_backends.contract.torment._Tormentor._work_in_little_space": CHILD,
    "state_backends.contract.torment._Tormentor._work_until": CHILD,
}
"""Functions that set something for a whole process, and why that disturbs no thread."""
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
def remember(name, seen={}): ...
def gather(*, into=list()): ...
pairs = ({}, ["never written"])
pairs[0][1] = 2
first, second = {}, threading.Lock()
first[1] = second
"""
SETTING = """
def hush():
    with warnings.catch_warnings():
        os.environ["HUSHED"] = "1"
class Loader:
    def load(self, folder):
        sys.path.append(folder)
def read(folder):
    return os.environ.get(folder), sys.path[0]
sys.stdout = None
"""


def called(node: ast.expr) -> str:
    """The name of what a call calls; "" for anything else."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def is_written(tree: ast.Module, name: str) -> bool:
    """Whether functions of a module change its attribute of this name in place, or set it anew."""
    for node in ast.walk(tree):
        match node:
            case ast.Global(names) if name in names:
                return True
            case ast.Call(ast.Attribute(changed, method)) if root_of(changed) == name and method in CHANGING:
                return True
            case ast.Subscript(value=changed, ctx=ast.Store() | ast.Del()) if root_of(changed) == name:
                return True
            case ast.AugAssign(ast.Name(id=owner)) if owner == name:
                return True
    return False


def root_of(value: ast.expr) -> str:
    """The name in whose parts something is: `pairs` of `pairs[0][1]`; "" if it is in nothing with a name."""
    while isinstance(value, ast.Subscript):
        value = value.value
    return value.id if isinstance(value, ast.Name) else ""


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
    yield from (f"{module}.{name}" for name in shared_defaults(tree))
    for within, node in statements(tree.body):
        match node:
            case ast.FunctionDef(name, decorator_list=found) if any(
                is_cache(one) or holds_state(one) for one in found
            ):
                yield f"{module}.{within}{name}"
                continue
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = [*zip(targets, values, strict=True)]
            case ast.Assign(targets=targets, value=value):
                pairs = [(target, value) for target in targets]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = [(target, value)]
            case _:
                continue
        for target, value in pairs:
            name = ast.unparse(target)
            container = holds_container(value) and (is_written(tree, name) or within)
            if name not in changed and name != "__all__" and (container or is_made(value)):
                yield f"{module}.{within}{name}"


def shared_defaults(tree: ast.Module) -> Iterator[str]:
    """The arguments of functions whose default all calls share, and may change."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            some, named = node.args, [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(named[::-1], some.defaults[::-1], strict=False)]
            pairs += [
                (one, default)
                for one, default in zip(some.kwonlyargs, some.kw_defaults, strict=True)
                if default is not None
            ]
            for argument, default in pairs:
                if holds_container(default) or is_made(default):
                    yield f"{getattr(node, 'name', 'lambda')}({argument.arg})"


def holds_container(value: ast.expr) -> bool:
    """Whether a value is a container that can be changed, or a tuple of some."""
    inner = value.elts if isinstance(value, ast.Tuple) else []
    return isinstance(value, MUTABLE) or any(map(holds_container, inner))


def settings(source: str, module: str) -> Iterator[str]:
    """The functions of a module that set something for the whole process."""

    def within(node: ast.AST, name: str) -> Iterator[str]:
        for inner in ast.iter_child_nodes(node):
            named = isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if sets_for_all(inner):
                yield name
            yield from within(inner, f"{name}.{inner.name}" if named else name)  # type: ignore[attr-defined]

    return within(ast.parse(source), module)


def sets_for_all(node: ast.AST) -> bool:
    """Whether an expression sets something for the whole process."""
    match node:
        case ast.Call(ast.Attribute(owner, method)) if method in CHANGING and dotted(owner) in HELD_BY_ALL:
            return True
        case ast.Call(function):
            return dotted(function) in SET_FOR_ALL
        case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
            return dotted(owner) in HELD_BY_ALL
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return dotted(node) in HELD_BY_ALL
    return False


def dotted(node: ast.AST) -> str:
    """A name with dots, as it is written; "" for any other expression."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name() | ast.Attribute() as owner, name):
            return f"{dotted(owner)}.{name}"
    return ""


def is_cache(decorator: ast.expr) -> bool:
    """Whether a decorator keeps what a function returns, for all its callers."""
    return ast.unparse(decorator).split("(")[0].split(".")[-1] in {"cache", "lru_cache"}


def holds_state(decorator: ast.expr) -> bool:
    """Whether calls share an object that a decorator made, as `np.errstate` of NumPy 1.26 does: it holds what to go back to."""
    return is_made(decorator) and not is_cache(decorator)


def is_made(value: ast.expr) -> bool:
    """Whether a value is what a call returns that may be changed later."""
    return isinstance(value, ast.Call) and called(value) not in HARMLESS


def found_by(search: Callable[[str, str], Iterable[str]]) -> set[str]:
    """What a search finds in all modules."""
    return {
        name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in search(path.read_text("utf-8"), ".".join(path.relative_to(ROOT).with_suffix("").parts))
    }


def test_what_threads_share_is_on_the_list() -> None:
    """All of it, and nothing else."""
    assert set(SHARED) == found_by(shared)


def test_what_is_set_for_a_process_is_on_the_list() -> None:
    """The environment, warnings, contexts of decimals, paths of imports, signals and the like."""
    assert set(SET) == found_by(settings)


def test_new_ones_are_found() -> None:
    """Containers that are written to, also those of classes, locks, caches, globals and objects whose calls may change them."""
    names = [
        "cached",
        "counter",
        "first",
        "guard",
        "known",
        "packer",
        "pairs",
        "quiet",
        "second",
        "Reader.seen",
    ]
    names += ["remember(seen)", "gather(into)"]
    assert {f"module.{name}" for name in names} == set(shared(UNSAFE, "module"))
    assert {"module.hush", "module.Loader.load", "module"} == set(settings(SETTING, "module"))
