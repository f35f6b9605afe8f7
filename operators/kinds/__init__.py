"""The kinds of windows: how each is computed from the entries of a window store."""
