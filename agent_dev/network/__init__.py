"""The sandbox's own network, from which only destinations that rules allow can be reached."""
