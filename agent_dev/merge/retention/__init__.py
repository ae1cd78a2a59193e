"""Retention of merged sessions and of their merges."""
