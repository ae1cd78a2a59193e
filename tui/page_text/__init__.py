"""Texts of whole pages: the summary before a merge, and pages about commits."""
