"""Where the windows of each kind lie in time, as values without state: which record is late, which windows close or change."""
