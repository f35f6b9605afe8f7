"""The contract suite: every promise of `StateBackend` as a test, for authors of backends.

    from state_backends.contract import BackendContract

    class TestMyBackend(BackendContract):
        backend_class = MyBackend
        options = {"cacheMb": "1"}
        refused = [{"cacheMb": "0"}, {"cacheMb": "many"}]

It needs pytest. A test that fails says which promise is broken, and what was expected and found.
"""

from state_backends.contract.crashes import crash_batch, crash_state, write_forever
from state_backends.contract.interruptions import InterruptionsContract
from state_backends.contract.opening import OpeningContract
from state_backends.contract.pages import PagesContract
from state_backends.contract.recovery import RecoveryContract
from state_backends.contract.segments import SegmentsContract
from state_backends.contract.snapshots import SnapshotContract
from state_backends.contract.states import (
    AWKWARD_KEYS,
    AWKWARD_SEGMENTS,
    Pages,
    applied,
    assert_holds,
    random_batch,
)

__all__ = [
    "AWKWARD_KEYS",
    "AWKWARD_SEGMENTS",
    "BackendContract",
    "Pages",
    "applied",
    "assert_holds",
    "crash_batch",
    "crash_state",
    "random_batch",
    "write_forever",
]


class BackendContract(
    OpeningContract,
    PagesContract,
    SegmentsContract,
    RecoveryContract,
    InterruptionsContract,
    SnapshotContract,
):
    """Tests of one backend. Subclass it, with a name that begins with `Test`.

    Attributes:
        backend_class: the backend to be tested.
        options: its options by short name, as text.
        steps: length of the randomized comparison with dictionaries.
        seed: the seed of that comparison and of the kills; None draws one and prints it.
        kills: how many processes are killed at random moments, in addition to those at each line of the backend.
        refused: options that `check_options` must refuse, each a mapping of one bad value. If it is None, the suite tries
            values that no option should accept.
    """
