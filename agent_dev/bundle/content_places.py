"""The places of a bundle's contents: the only file that needs one, or a folder from which it is copied."""

import os
from collections.abc import Collection, Mapping
from typing import Any

from agent_dev.bundle import base_builder, upper_builder
from agent_dev.bundle.manifest import ContentUses
from agent_dev.bundle.upper_builder import UpperBuilder

Row = dict[str, Any]
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def size_on_disk(sizes: Mapping[str, int], uses: ContentUses) -> int:
    """Return the number of bytes that all copies of the contents need while they are imported."""
    counts = {digest: count + uses.base[digest] for digest, count in uses.files.items()}
    return sum(size * (counts[digest] + (counts[digest] > 1)) for digest, size in sizes.items())


class ContentPlaces:
    """The places of the members of a bundle: contents are named by SHA-256; packs and logs are put into the folder."""

    def __init__(self, uses: ContentUses, folder: str, snapshot: str, builders: tuple[UpperBuilder, ...]) -> None:
        """`folder`: for contents that several files need; `snapshot`: the folder of the lower snapshot."""
        self._uses, self._folder, self._snapshot = uses, folder, snapshot
        self._builders = builders
        files = (digest for digest, count in uses.files.items() if count == 1 and not uses.base[digest])
        self._files = dict.fromkeys(files, (0, 0))  # builder, row
        for number, builder in enumerate(builders):
            for index, digest in builder.contents():
                if digest in self._files:
                    self._files[digest] = number, index
        self._row: Row = {}  # of the file that is being written

    @property
    def written(self) -> Collection[str]:
        """The contents that are written to the only file that needs them."""
        return self._files.keys()

    def create(self, name: str) -> int:
        """Create the file to which a member is written; return its descriptor. Raises OSError."""
        if name in self._files:
            number, index = self._files[name]
            self._row = self._builders[number].row(index)
            return self._builders[number].create_file(self._row)
        is_only_in_base = self._uses.base.get(name, False) and not self._uses.files[name]
        path = base_builder.content_path(self._snapshot, name) if is_only_in_base else f"{self._folder}/{name}"
        return os.open(path, _NEW, 0o600)

    def finish(self, name: str, fd: int) -> None:
        """Set mode, time and attributes of a file whose content is written and checked. Raises OSError, BadBundle."""
        if name in self._files:
            upper_builder.finish_file(fd, self._row)
