"""The screen that compares the attempts of `tx --best`."""
