"""The user's terminal: a driver for Textual, and the state restored on exit."""
