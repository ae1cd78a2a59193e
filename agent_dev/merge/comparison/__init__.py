"""Comparisons of the results of sessions."""
