"""Records as columns: Arrow and NumPy arrays, lengths of time, ranges of rows, and checks of a frame's columns."""
