"""File systems that tests make."""
