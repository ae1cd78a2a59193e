"""Servers for tests: proxies, an SSH server, package registries, a database."""
