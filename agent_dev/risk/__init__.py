"""Rules that mark risky changes: by path, by content, by commit."""
