"""Attempts of `tx --best`: running them, and comparing them on the screen."""
