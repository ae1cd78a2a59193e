"""File formats of git: the index, refs, commits, LFS pointers."""
