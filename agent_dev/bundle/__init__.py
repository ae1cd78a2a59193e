"""Bundles: a session in one file, exported from one clone of a repository and imported into another."""
