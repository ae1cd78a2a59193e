"""Connections of the gateway through a proxy: HTTP CONNECT and SOCKS5."""
