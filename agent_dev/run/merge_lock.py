"""The lock that keeps merges out between the start of a transaction's run and its lower snapshot."""


def block_merges(fd: int) -> None:
    """Block merges until the lower snapshot is taken, which would record their changes as the start of the agent."""
    if fd >= 0:
        import fcntl  # only for transactions

        fcntl.flock(fd, fcntl.LOCK_SH)


def allow_merges(fd: int) -> None:
    """Allow merges again."""
    import fcntl  # as above

    fcntl.flock(fd, fcntl.LOCK_UN)
