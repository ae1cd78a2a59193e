"""Sessions that can be detached from the user's terminal: the attach server, its clients, and the history of the screen."""
