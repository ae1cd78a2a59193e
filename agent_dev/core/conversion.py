"""What git's conversion of line ends does to bytes, backwards: from a blob to the disk."""


def on_disk(blob: bytes, size: int) -> bytes | None:
    """Return the bytes of a file of `size` bytes that git keeps as `blob`, None when that is not certain.

    For files without a filter, an ident or an encoding (gitattributes): what is left takes CRs before LFs away on the way
    into git, and adds them on the way out, so that equal sizes are equal bytes, and one CR for each LF is one before each.
    """
    if len(blob) == size:
        return blob
    if len(blob) + blob.count(b"\n") == size and b"\r" not in blob:
        return blob.replace(b"\n", b"\r\n")
    return None
