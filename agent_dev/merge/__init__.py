"""Review, merge, undo and redo of a session's changes."""
