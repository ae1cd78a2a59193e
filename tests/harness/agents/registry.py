"""A registry of npm and PyPI packages on 127.0.0.1. Each package is one program that prints its version, or its arguments."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping

from tests.harness.agents.web import PathListener, TestServer

_NODE = '#!/usr/bin/env node\nconst a = process.argv.slice(2);\nconsole.log(a[0] === "--version" ? "%s" : a.join("|"));\n'
_NODE_PACKAGE = '#!/bin/sh\n[ "$1" != -p ] || { echo %s; exit; }\nNODE_OF=npm exec /usr/bin/node "$@"\n'  # npm's own `node`
_PYTHON = 'import sys\ndef main():\n    print("%s" if sys.argv[1:2] == ["--version"] else "|".join(sys.argv[1:]))\n'


class Registry(TestServer):
    """A registry as a context manager; `versions` by package, the last one is the newest. `paths` lists the requested paths."""

    def __init__(self, npm: Mapping[str, list[str]], pypi: Mapping[str, list[str]]) -> None:
        self.npm, self.pypi = dict(npm), dict(pypi)
        self.paths: list[str] = []
        self._files = PathListener(self.answer)
        super().__init__(self._files)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which npm and pip use only this registry."""
        return {"NPM_CONFIG_REGISTRY": self.url, "PIP_INDEX_URL": f"{self.url}/simple", "PIP_TRUSTED_HOST": "127.0.0.1"}

    def require(self, authorization: str) -> None:
        """Answer only requests with this header."""
        self._files.authorization = authorization

    def answer(self, path: str) -> bytes | None:
        """Return the content at a path, None if there is none."""
        self.paths.append(path)
        name = path.strip("/").replace("%2f", "/")
        if name in self.npm:
            return json.dumps(self._npm_document(name)).encode()
        parts = name.split("/")
        if parts[0] == "tarballs":
            return npm_package("/".join(parts[1:-1]), parts[-1].removesuffix(".tgz"))
        if parts[0] == "simple" and len(parts) == 2:
            links = (
                f'<a href="/wheels/{_wheel_name(parts[1], one)}">{_wheel_name(parts[1], one)}</a>'
                for one in self.pypi.get(parts[1], ())
            )
            return "".join(links).encode()
        if parts[0] == "wheels":
            package, version = parts[1].split("-")[:2]
            return wheel(package, version)
        return None

    def _npm_document(self, name: str) -> dict[str, object]:
        versions = {}
        for version in self.npm[name]:
            digest = base64.b64encode(hashlib.sha512(npm_package(name, version)).digest()).decode()
            dist = {"tarball": f"{self.url}/tarballs/{name}/{version}.tgz", "integrity": f"sha512-{digest}"}
            versions[version] = {"name": name, "version": version, "bin": {name: "program.js"}, "dist": dist}
        return {"name": name, "dist-tags": {"latest": self.npm[name][-1]}, "versions": versions}


def npm_package(name: str, version: str) -> bytes:
    """Return the tarball of an npm package, the same bytes each time."""
    manifest = json.dumps({"name": name, "version": version, "bin": {name: "program.js"}})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:  # uncompressed: gzip would add the time
        for path, text in (
            ("package/package.json", manifest),
            ("package/program.js", (_NODE_PACKAGE if name == "node" else _NODE) % version),
        ):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(text), 0o755
            file.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def _wheel_name(package: str, version: str) -> str:
    return f"{package}-{version}-py3-none-any.whl"


def wheel(package: str, version: str) -> bytes:
    """Return the wheel of a PyPI package."""
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}.py": _PYTHON % version,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{package} = {package}:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()
