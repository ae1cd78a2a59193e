"""Transactions: commands whose changes are merged only if they succeed."""
