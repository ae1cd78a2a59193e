"""Bundles: a session as one file, exported from one clone of a repository and imported over another."""
