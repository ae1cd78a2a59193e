"""The upper layer of an overlay as changes: truth table, lower snapshot, selection."""
