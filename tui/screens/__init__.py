"""Screens: each turns keys into events and hands the state to its widgets."""
