"""Texts and labels of the screen."""
