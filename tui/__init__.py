"""The review screen: an immutable state, pure updates, widgets that draw the state, and workers."""
