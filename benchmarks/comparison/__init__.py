"""Benchmarks that compare with other tools."""
