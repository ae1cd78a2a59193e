"""Deciders, one per network mode: find the rule that allows a captured connection, or ask the user."""
