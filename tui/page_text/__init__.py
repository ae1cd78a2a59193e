"""Texts of whole pages: the summary before a merge, and those about commits."""
