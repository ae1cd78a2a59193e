"""Benchmarks of the network."""
