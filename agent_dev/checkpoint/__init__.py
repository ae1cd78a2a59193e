"""Checkpoints of a session, and rollback to them."""
