"""Labels of the screen, and text in terminal cells."""
