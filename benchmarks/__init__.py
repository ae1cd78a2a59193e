"""Benchmarks: ratios between alternatives that are measured in turns within one run, so that noise affects all alike."""
