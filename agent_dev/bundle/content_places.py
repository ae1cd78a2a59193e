"""The places of a bundle's contents: the only file that needs one, or a folder from which it is copied."""

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from agent_dev.bundle import base_builder, upper_builder
from agent_dev.bundle.upper_builder import UpperBuilder

Row = dict[str, Any]
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def count_uses(manifest: Mapping[str, Any]) -> tuple[Counter[str], frozenset[str]]:
    """Return how many files of the upper layers have each content, and the contents of base versions."""
    roots, blobs = manifest["roots"], manifest["blobs"]
    files = Counter(row["digest"] for root in roots for row in root["entries"] if row["type"] == "file")
    return files, frozenset(row["digest"] for root in roots for row in root["base"] if row.get("digest") in blobs)


def size_on_disk(manifest: Mapping[str, Any]) -> int:
    """Return the number of bytes that all copies of the contents need while they are imported."""
    files, base = count_uses(manifest)
    uses = {digest: files[digest] + (digest in base) for digest in manifest["blobs"]}
    return sum(size * (uses[digest] + (uses[digest] > 1)) for digest, size in manifest["blobs"].items())


class ContentPlaces:
    """The places of the members of a bundle: contents are named by SHA-256; packs and logs are put into the folder."""

    def __init__(self, manifest: Mapping[str, Any], folder: str, snapshot: str, builders: tuple[UpperBuilder, ...]) -> None:
        """`folder`: for contents that several files need; `snapshot`: the folder of the lower snapshot."""
        self._folder, self._snapshot = folder, snapshot
        files, base = count_uses(manifest)
        self._only_in_base = base - files.keys()
        self._files: dict[str, tuple[UpperBuilder, Row]] = {}
        for builder, root in zip(builders, manifest["roots"], strict=True):
            for row in root["entries"]:
                if row["type"] == "file" and files[row["digest"]] == 1 and row["digest"] not in base:
                    self._files[row["digest"]] = (builder, row)

    @property
    def written(self) -> Mapping[str, object]:
        """The contents that are written to the only file that needs them."""
        return self._files

    def create(self, name: str) -> int:
        """Create the file to which a member is written; return its descriptor. Raises OSError."""
        if name in self._files:
            builder, row = self._files[name]
            return builder.create_file(row)
        path = base_builder.content_path(self._snapshot, name) if name in self._only_in_base else f"{self._folder}/{name}"
        return os.open(path, _NEW, 0o600)

    def finish(self, name: str, fd: int) -> None:
        """Set mode, time and attributes of a file whose content is written and checked. Raises OSError, BadBundle."""
        if name in self._files:
            upper_builder.finish_file(fd, self._files[name][1])
