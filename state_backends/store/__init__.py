"""The timestamped window store over the pages of a backend."""
