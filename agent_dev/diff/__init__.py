"""Hunks, partial selection, three-way merge of texts, and parsing of patches."""
