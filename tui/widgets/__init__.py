"""Widgets: each draws a part of the state, and says what was clicked."""
