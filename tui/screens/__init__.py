"""Screens: they turn keys into events and pass the state to their widgets."""
