"""Remove what exceeds the settings `keep_*`: trash, merges, merged sessions, checkpoints and caches."""
