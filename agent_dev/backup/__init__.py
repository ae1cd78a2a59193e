"""Backups of a directory, once or periodically."""
