"""The command `windows`: looks at the checkpoints of stopped queries, and explains operators."""
