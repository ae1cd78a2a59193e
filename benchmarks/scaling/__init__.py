"""Benchmarks of growth: commands with few and many changes, sessions, merges, lines of a log, and files."""
