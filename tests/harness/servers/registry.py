"""A package registry on 127.0.0.1 for npm and pip: a document and its tarball, a simple index (PEP 503) and a wheel."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile

from tests.harness.agents.web import PathListener, TestServer

HOOK = "echo ran >hook"  # an install script of the package
_INFO = "left-1.0.dist-info"
_WHEEL = "left-1.0-py3-none-any.whl"


class Registry(TestServer):
    """A registry server as a context manager. `asked` lists the requested paths, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(PathListener(self._answer))
        tarball, wheel = _tarball(), _wheel()
        self.files = {
            "/left": json.dumps(_document(f"{self.url}/left/-/left-1.0.0.tgz", tarball)).encode(),
            "/left/-/left-1.0.0.tgz": tarball,
            "/simple/left/": f'<a href="/files/{_WHEEL}#sha256={hashlib.sha256(wheel).hexdigest()}">{_WHEEL}</a>'.encode(),
            f"/files/{_WHEEL}": wheel,
        }

    def _answer(self, path: str) -> bytes | None:
        self.asked.append(path)
        return self.files.get(path)


def _package() -> dict[str, object]:
    return {"name": "left", "version": "1.0.0", "bin": {"left": "left.js"}, "scripts": {"postinstall": HOOK}}


def _document(url: str, tarball: bytes) -> dict[str, object]:
    digest = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    version = {**_package(), "hasInstallScript": True, "dist": {"tarball": url, "integrity": f"sha512-{digest}"}}
    return {"name": "left", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}


def _tarball() -> bytes:
    created = io.BytesIO()
    files = {"package.json": json.dumps(_package()), "left.js": '#!/usr/bin/env node\nconsole.log("left " + 1)\n'}
    with tarfile.open(fileobj=created, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return created.getvalue()


def _wheel() -> bytes:
    files = {
        "left.py": 'print("left", 1)\n',
        f"{_INFO}/METADATA": "Metadata-Version: 2.1\nName: left\nVersion: 1.0\n",
        f"{_INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{_INFO}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{_INFO}/RECORD"))
    created = io.BytesIO()
    with zipfile.ZipFile(created, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return created.getvalue()
