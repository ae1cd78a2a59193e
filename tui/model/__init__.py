"""The screen's model: values, independent of the terminal."""
