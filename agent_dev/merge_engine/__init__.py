"""The engine of merges: journal, operations, staging, undo."""
