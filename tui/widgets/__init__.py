"""Widgets: each draws a part of the state and reports clicks."""
