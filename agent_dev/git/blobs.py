"""Blobs of a bare repository by id: all of them at once, or in batches, so that many fit into little memory."""

from collections.abc import Container, Iterable, Iterator, Mapping
from io import BytesIO

from agent_dev.errors import CommandFailed
from agent_dev.git.bare import MAX_OUTPUT_SIZE, BareRepository
from agent_dev.git.blob_reader import BlobReader
from agent_dev.git.object_id import blob_id

BATCH = ("cat-file", "--batch", "--buffer")
_MAX_BATCH_SIZE, _MAX_BATCH_IDS = 4 << 20, 4_000  # bytes; ids
_KEPT_BATCHES = 2
_MAX_SINGLE_READS = 3  # of one batch in a row, before all of it is read again


class BlobBatches(Mapping[str, bytes]):
    """Blobs that are read when they are needed, in batches of which only the last two are kept: use them in the order of `sizes`.

    A blob that is needed again later, because several files have it, is then read alone, in 0.1 ms.

    `sizes`: of the blobs, by id. A lookup raises CommandFailed for a batch with a missing blob, or with one that does not match
    its id; with `skips_unreadable`, KeyError.
    """

    def __init__(self, repo: BareRepository, sizes: Mapping[str, int], *, skips_unreadable: bool = False) -> None:
        self._repo, self._skips_unreadable = repo, skips_unreadable
        self._batches = list(_split(sizes))
        self._numbers = {oid: number for number, batch in enumerate(self._batches) for oid in batch}
        self._kept: dict[int, dict[str, bytes]] = {}
        self._reader = BlobReader(repo.program, repo.path, f"{repo.path}/objects")
        self._last, self._single_reads = -1, 0

    def __getitem__(self, oid: str) -> bytes:
        number = self._numbers[oid]
        if number not in self._kept:
            self._single_reads = self._single_reads + 1 if number == self._last else 1
            self._last, is_past = number, number < max(self._kept, default=-1)
            if is_past and self._single_reads <= _MAX_SINGLE_READS:
                data = self._reader.read(oid, MAX_OUTPUT_SIZE)
                if data is not None:
                    return data
            while len(self._kept) >= _KEPT_BATCHES:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = self._read_batch(self._batches[number])
        return self._kept[number][oid]

    def _read_batch(self, ids: list[str]) -> dict[str, bytes]:
        try:
            return read_blobs(self._repo, ids)
        except CommandFailed:
            if self._skips_unreadable:
                return {}
            raise

    def __contains__(self, oid: object) -> bool:
        return oid in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _split(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    total = 0
    for oid, size in sizes.items():
        if batch and (total + size > _MAX_BATCH_SIZE or len(batch) >= _MAX_BATCH_IDS):
            yield batch
            batch, total = [], 0
        batch.append(oid)
        total += size
    if batch:
        yield batch


def batches_of(repo: BareRepository, ids: Iterable[str]) -> BlobBatches:
    """Return these blobs in batches, in this order. Raises CommandFailed for a missing one."""
    wanted = list(dict.fromkeys(ids))
    sizes = read_sizes(repo, wanted)
    _check_complete(wanted, sizes)
    return BlobBatches(repo, sizes)


def _check_complete(wanted: list[str], found: Container[str]) -> None:
    missing = [oid for oid in wanted if oid not in found]
    if missing:
        raise CommandFailed(program="git cat-file", reason=f"{missing[0]} is not a blob")


def read_sizes(repo: BareRepository, ids: Iterable[str]) -> dict[str, int]:
    """Return the sizes of blobs in bytes, by id and in this order; objects that are missing or no blobs are left out."""
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    output = repo.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", "--buffer", stdin=id_lines(wanted))[1]
    rows = (row.split() for row in BytesIO(output))
    found = zip(wanted, rows, strict=False)  # git answers each id with a line; fewer lines if it failed
    return {oid: int(row[1]) for oid, row in found if len(row) == 2 and row[0] == b"blob"}


def read_blobs(repo: BareRepository, ids: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of blobs by id. Raises CommandFailed for a missing blob, or one that does not match its id."""
    wanted = sorted(set(ids))
    found = parse_blobs(repo, repo.check_output(*BATCH, stdin=id_lines(wanted)), wanted) if wanted else {}
    _check_complete(wanted, found)
    return found


def id_lines(ids: Iterable[str]) -> bytes:
    """Return git's input for these ids."""
    text = "\n".join(ids)  # a line for each would need 20 MB more memory for 200,000
    return f"{text}\n".encode() if text else b""


def parse_blobs(repo: BareRepository, output: bytes, ids: list[str]) -> dict[str, bytes]:
    """Parse the output for some ids, skipping what is not a blob. Raises CommandFailed for one that does not match its id."""
    found, position = {}, 0
    for oid in ids:
        end = output.find(b"\n", position)
        fields = output[position:end].split(b" ")
        if end < 0 or len(fields) not in (2, 3):
            raise CommandFailed(program="git cat-file", reason=f"{oid} cannot be read")
        if len(fields) == 2:  # missing or ambiguous
            position = end + 1
            continue
        size = int(fields[2])
        data, position = output[end + 1 : end + 1 + size], end + size + 2
        if fields[1] == b"blob":
            if blob_id(data, is_sha256=repo.is_sha256) != oid:
                raise CommandFailed(program="git cat-file", reason=f"{oid} does not match its object id")
            found[oid] = data
    return found
