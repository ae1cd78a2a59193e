"""Descriptions of this machine for bug reports, with paths and secrets masked."""
