"""The commit protocol, searched: the product's own code, run in a simulated world where a scheduler decides who goes on.

Under test are `Durable`, changelog, pointer, retention, snapshots, schedule and uploads as they are. Simulated are

- the journal: as Spark's state, each attempt of a batch sees the batch before it, and its writes count if its commit is the one
  that the driver takes (`world`);
- the folder: an object store, where a file appears as a whole, or a disk that loses what was not synced (`storage`);
- the clock and the random tokens, by process; which processes live (`install`).

Each attempt and each upload in the background is a task. It stops before every call to the folder, and before it begins and
commits (`tasks`). At each stop the scheduler chooses: which task goes on, whether another attempt of the batch begins (a retry,
or a speculative one: the one that stands still is then a zombie), or one of the faults: a process dies, a call fails, a call
reports a failure though it was done, the power fails, a clock jumps, the driver goes back to an earlier batch; or another
process reads the state of a committed batch beside the query. A run is the list of these choices (`runs`).

The judge (`judge`) looks at every commit and every removal, and at the end:

- an attempt begins with the fold of the committed batches, no more and no less;
- a committed pointer names complete snapshots only, and they stay so while the host may return to the pointer;
- each batch that the host may return to can be restored by a new process;
- nobody waits for ever; an attempt fails only by a fault, and with an error that the product names;
- after some further batches nothing is in the folder that the last pointer does not need.

`search` tries all runs of a small world (`worlds`) with at most one fault, depth first. Two stops are the same state if the
journal, the folder, the clocks and all that each task has seen are equal: the rest of a run depends on nothing else. Of runs
that differ only in the order of steps that do not meet (`footprints`) it plays one. Larger worlds are drawn at random by seed,
and a run that fails is made shorter and drawn, one column per process. `bugs` has bugs that are planted one at a time:
`python -m tests.protocol` tells what the search is good for.

A second world has workers, and the processes that hold buckets' copies for them (`executor_world`). Under test are
`where_held` with the table of `protocol`, `bucket_service`, `copies`, `messages`, the job of a bucket and all below
it. Simulated are connections, the clock, Spark's journal, and which processes live, stand still, or are started
(`executor_install`). Executors share a machine. The driver may restart the query, with other functions and with a name that was
used before. Its judge (`executor_judge`) wants, beside the rows:

- an attempt fails only if two processes died of it;
- nobody gives up a process that works, nor waits twice for one that stands still;
- afterwards, in quiet batches, one process has the copy: nothing is restored, workers have none of their own.

Out of reach today: how processes end when nobody needs them; several buckets at once; two runs at the same time; the bytes of
RocksDB and of Spark's state store; two writes of one snapshot that go on at the same time; a late attempt that replaces the
files of a batch that Spark has committed.
"""
