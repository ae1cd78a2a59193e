"""The merge screen: a pure state, the widgets that draw it, and the one place that turns keys into events."""
