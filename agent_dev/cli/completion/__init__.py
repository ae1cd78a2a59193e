"""Shell completion: the scripts of the shells, and the candidates that they ask for."""
