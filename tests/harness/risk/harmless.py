"""Harmless everyday changes in realistic projects, as compact tables; the rules should match few of them."""

from collections.abc import Iterator

from tests.harness.risk import harmless_near as near
from tests.harness.risk.corpus import Case

# By language: paths, a file, and lines that are inserted.
CODE = {
    "src/{}.py": (
        "import os\n\n\ndef run(path):\n    return os.path.exists(path)\n",
        (
            "\n\ndef stop():\n    return None\n",
            "# see the manual\n",
            "\n\nclass Row:\n    name = 'x'\n",
            "    url = f'{base}/items'\n",
        ),
    ),
    "tests/test_{}.py": (
        "from shop import x\n\n\ndef test_x():\n    assert x() == 1\n",
        (
            "\n\ndef test_y():\n    assert x(2) == 2\n",
            "    assert get('http://localhost:8000/') is None\n",
            "    # curl it by hand\n",
        ),
    ),
    "web/{}.ts": (
        "export function total(rows: Row[]): number {\n  return rows.length;\n}\n",
        (
            "export const NONE = 0;\n",
            "// TODO: faster\n",
            "  const answer = await fetch(`/api/${id}`);\n",
            "type Row = { id: number };\n",
        ),
    ),
    "web/{}.css": (
        ".a {\n  color: red;\n}\n",
        (".b::before {\n  content: '→';\n}\n", "/* new */\n", "@media print { .a { display: none; } }\n"),
    ),
    "cmd/{}.go": (
        "package shop\n\nfunc Run() int { return 1 }\n",
        ("func Stop() {}\n", "// Stop ends it.\n", "var hosts = map[string]int{}\n"),
    ),
    "crates/a/src/{}.rs": (
        "pub fn run() -> u8 { 1 }\n",
        ("pub fn stop() {}\n", "#[test]\nfn works() {}\n", "use std::process::Command;\n"),
    ),
    "lib/{}.rb": ("module Shop\nend\n", ("class Row; end\n", "# a comment\n", "puts `date`\n")),
    "app/{}.java": ("class Shop {}\n", ("interface Row {}\n", "// a comment\n", "enum Kind { A, B }\n")),
    "app/{}.php": ("<?php\nreturn 1;\n", ("echo htmlspecialchars($x);\n", "// note\n")),
    "core/{}.c": ("int run(void) { return 1; }\n", ("static int n;\n", "#include <stdio.h>\n", "/* system(3) is not used */\n")),
    "core/{}.h": ("#pragma once\n", ("int run(void);\n", "#define N 3\n")),
    "db/{}.sql": ("create table t (id int);\n", ("alter table t add name text;\n", "-- index\ncreate index i on t (id);\n")),
    "ios/{}.swift": ("struct Row {}\n", ("func run() {}\n", "// note\n")),
    "api/{}.proto": ('syntax = "proto3";\n', ("message Row { int32 id = 1; }\n",)),
}
NAMES = "orders users report search cart mail"

# Text: documents in many scripts, with content that looks strange but is harmless.
WORDS = {
    "docs/{}.md": (
        "# Shop\n\nSome words.\n",
        (
            "Install it:\n\n    curl -fsSL https://get.example/i | sh\n",
            "It works 🎉 👩‍💻 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️ ✔️.\n",
            "Магазин работает, и git тоже.\n",
            "המכולת פתוחה.\n",
            "المتجر مفتوح.\n",
            "می‌خواهم بخرم.\n",
            "店は開いています。\n",
            "Δx = λ·μ, naïve café, Straße, 10 µs.\n",
            "Put your key into `~/.ssh/id_ed25519`, never here.\n",
            "| a | b |\n|---|---|\n| 1 | 2 |\n",
        ),
    ),
    "locales/{}.json": ('{\n "a": "b"\n}\n', ('{\n "a": "\u0431"\n}\n', '{\n "a": "价"\n}\n', '{\n "a": "prix\u00a0: 3"\n}\n')),
    "CHANGES-{}.txt": ("1.0\n", ("1.1: fewer bugs\r\n", "1.2: \u201cquotes\u201d \u2013 dashes\n")),
    "data/{}.csv": ("id,name\n", ("1,Ada\n", "2,Łukasz\n", "3," + "x" * 3000 + "\n")),
}
_LOCK = """{{
 "packages": {{"a": {{
  "version": "{0}",
  "resolved": "https://npm.example/a-{0}.tgz",
  "integrity": "sha512-{0}"{1}}}}}
}}
"""
_FUNDING = ',\n  "funding": {"url": "https://sponsors.example/a"}'
_MANIFEST = """{{
 "name": "shop",
 "version": "{0}",
 "description": "{1}",
 "scripts": {{"test": "jest"}},
 "dependencies": {{"a": "{2}"}}
}}
"""
_PROJECT = (
    '[project]\nname = "shop"\nversion = "{0}"\ndescription = "{1}"\ndependencies = ["web{2}"]\n[tool.ruff]\nline-length = {3}\n'
)
_CARGO = '[package]\nname = "shop"\nversion = "{0}"\n[dependencies]\nserde = "{1}"\n'
MANIFESTS = (
    ("package.json", _MANIFEST.format("1.0.0", "Sells", "^1.0.0"), _MANIFEST.format("1.1.0", "Sells", "^1.0.0")),
    ("package.json", _MANIFEST.format("1.0.0", "Sells", "^1.0.0"), _MANIFEST.format("1.0.0", "Sells more", "^1.0.0")),
    ("package.json", _MANIFEST.format("1.0.0", "Sells", "^1.0.0"), _MANIFEST.format("1.0.0", "Sells", "~1.2.3 || >=2")),
    ("pyproject.toml", _PROJECT.format("1.0", "x", ">=2", 88), _PROJECT.format("1.1", "x", ">=2", 88)),
    ("pyproject.toml", _PROJECT.format("1.0", "x", ">=2", 88), _PROJECT.format("1.0", "y", ">=2.1,<3", 88)),
    ("pyproject.toml", _PROJECT.format("1.0", "x", ">=2", 88), _PROJECT.format("1.0", "x", ">=2", 120)),
    ("Cargo.toml", _CARGO.format("1.0.0", "1.0"), _CARGO.format("1.0.1", "1.0")),
    ("Cargo.toml", _CARGO.format("1.0.0", "1.0"), _CARGO.format("1.0.0", "1.0.200")),
    ("package-lock.json", _LOCK.format("1.0.0", ""), _LOCK.format("1.0.1", "")),
    ("package-lock.json", _LOCK.format("1.0.0", ""), _LOCK.format("1.0.0", _FUNDING)),
    ("yarn.lock", 'a@^1:\n  resolved "https://npm.example/a-1.tgz#1"\n', 'a@^1:\n  resolved "https://npm.example/a-2.tgz#2"\n'),
    ("pnpm-lock.yaml", "a@1:\n  resolution: {integrity: sha512-1}\n", "a@2:\n  resolution: {integrity: sha512-2}\n"),
    ("Cargo.lock", 'source = "registry+https://c.example/i"\n', 'version = "2"\nsource = "registry+https://c.example/i"\n'),
    ("uv.lock", 'version = "1"\n', 'version = "2"\n'),
    ("poetry.lock", 'name = "web"\nversion = "1"\n', 'name = "web"\nversion = "2"\n'),
    ("go.sum", "x.example/web v1.0.0 h1:a=\n", "x.example/web v1.1.0 h1:b=\n"),
    ("go.mod", "module shop\n\nrequire x.example/web v1.0.0\n", "module shop\n\nrequire x.example/web v1.1.0\n"),
    ("requirements.txt", "web==2.0\ndb==1.1\n", "web==2.1\ndb==1.1\n"),
    ("requirements.txt", "web==2.0\n", "# for the shop\nweb==2.0\n"),
)
# Files that resemble those named by a rule.
NEAR = (
    "docs/claude.txt docs/CLAUDE.md.txt src/package.json.py my-gitignore vscode/tasks.json idea/a.xml src/so.py nodes.txt a.jarx"
    " .github/ISSUE_TEMPLATE/bug.md .github/pull_request_template.md .github/FUNDING.yml.bak workflows/a.yml CODEOWNERS.md"
    " .env.example .env.sample static/app.css tsconfig.json .editorconfig .python-version .dockerignore .prettierignore"
    " .eslintignore src/hooks/useCart.ts src/config/index.ts src/roles/admin.ts src/setup/index.py src/makefile_parser.py"
    " docs/docker.md docs/Makefile.md tests/fixtures/package.txt src/build/index.ts src/conf.py src/tasks.py src/git.py LICENSE"
    " README.md NOTICE CONTRIBUTING.md SECURITY.md src/user.service.ts src/main.rs assets/icon.svg public/index.html api.graphql"
    " notebooks/a.ipynb src/gradle.py proto/a.proto docs/ci.md src/env.py data/config.json"
    " templates/mail.html i18n/de.po src/profile.py src/bashrc.py src/terraform.py web/robots.txt web/manifest.webmanifest"
)
# Everyday changes to files that a rule names: harmless, but matched on purpose, since only a review can tell.
MARKED = (
    ("Dockerfile", "FROM a:1\n", "FROM a:2\n"),
    (".github/workflows/test.yml", "uses: a@v3\n", "uses: a@v4\n"),
    ("conftest.py", "import pytest\n", "import pytest  # more\n"),
    (
        "package.json",
        _MANIFEST.format("1", "x", "^1"),
        _MANIFEST.format("1", "x", "^1").replace('"test"', '"lint": "eslint .", "test"'),
    ),
    ("requirements.txt", "web==2.0\n", "web==2.0\ncache==1.0\n"),
    ("vite.config.ts", "export default {};\n", "export default { base: '/' };\n"),
    (".pre-commit-config.yaml", "rev: v1\n", "rev: v2\n"),
    ("AGENTS.md", "Use tabs.\n", "Use spaces.\n"),
    ("build.gradle", "a 1\n", "a 2\n"),
    ("setup.cfg", "[flake8]\n", "[flake8]\nmax-line-length = 100\n"),
    ("compose.yaml", "image: db:15\n", "image: db:16\n"),
    ("yarn.lock", "", 'a@^1:\n  resolved "https://npm.example/a-1.tgz#1"\n'),
    ("snapshots/cli.txt", "ok\n", "\x1b[32mok\x1b[0m\n"),
    ("release.tar.gz", "x", "y"),
    (".vscode/settings.json", "{}\n", '{"editor.tabSize": 2}\n'),
)


def cases() -> Iterator[Case]:
    """Yield every harmless change."""
    for group, table in (("code", CODE), ("documents", WORDS)):
        for place, (text, lines) in table.items():
            for name in NAMES.split():
                path = place.format(name)
                yield Case(group, path, None, text)
                yield from (Case(group, path, text, text + line) for line in lines)
    yield from (Case("versions and lock files", path, before, after) for path, before, after in MANIFESTS)
    yield from (Case("similar to what a rule names", path, "a\n", "a\nb\n") for path in NEAR.split())
    yield from near.cases()
    yield from (Case("marked on purpose", path, before, after) for path, before, after in MARKED)
