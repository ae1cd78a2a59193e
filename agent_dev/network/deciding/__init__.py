"""Deciders: which rule allows a captured connection, or whether the user is asked. One per mode of the network."""
