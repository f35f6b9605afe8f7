"""Power losses: what a local runner's system calls leave on a disk that forgets all that was not synced."""
