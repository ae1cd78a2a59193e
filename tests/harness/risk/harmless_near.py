"""Harmless changes close to those that rules match: scripts and languages, tables, comments, updates of lock files."""

from collections.abc import Iterator

from tests.harness.risk.corpus import Case
from tests.harness.risk.planted_later import LOCKS, POD

COMMENTS = ("# run all of it", "# See the manual, section 3.", "#", "# TODO faster", "## Notes", "# don't repeat this")
# Files in which a comment line changes nothing.
COMMENTED = {
    "Makefile": "test:\n\tpytest\n",
    "scripts/run.sh": "#!/bin/sh\nset -eu\nmake\n",
    "Dockerfile": "FROM a:1\nRUN make\n",
    ".github/workflows/test.yml": "on: push\njobs:\n  test:\n    runs-on: x\n",
    "CMakeLists.txt": "project(shop)\nadd_library(shop a.c)\n",
    ".gitlab-ci.yml": "test:\n  script: make\n",
    ".pre-commit-config.yaml": "repos:\n  - repo: x\n    rev: v1\n",
    "conftest.py": "import pytest\nimport os\n",
    ".gitignore": "*.o\n/build/\n",
    ".gitattributes": "*.sh eol=lf\n*.png binary\n",
    "CODEOWNERS": "* @ada\n/docs @grace\n",
    "main.tf": 'resource "x" "y" {\n}\n',
}
HELP = (
    '\t@echo "  build   build everything"',
    "\t@echo 'make test: run the tests (see docs)'",
    "\t@echo",
    '\t@printf "usage: make [target]"',
)
LOGS = [
    "*.log",
    "*.tmp",
    "*.pyc",
    "__pycache__/",
    ".DS_Store",
    "*.swp",
    ".coverage",
    "htmlcov/",
    "*~",
    "Thumbs.db",
    "npm-debug.log*",
    ".eslintcache",
    "logs/",
    "*.bak",
]
SCRIPTS = {
    "arabic": "\u0627\u0644\u0645\u062a\u062c\u0631 \u0645\u0641\u062a\u0648\u062d\u200f!",
    "arabic numbers": "\u0627\u0644\u0633\u0639\u0631 (\u200f12\u200e) \u061c",
    "hebrew": "\u05d4\u05de\u05db\u05d5\u05dc\u05ea \u05e4\u05ea\u05d5\u05d7\u05d4 (v1)\u200e.",
    "persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "russian": "\u041c\u0430\u0433\u0430\u0437\u0438\u043d \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442",
    "russian with Latin words": "API\u0448\u043d\u0438\u043a \u0438 git-\u0445\u0443\u043a\u0438, JSON\u2019\u0430",
    "greek": "\u03a4\u03bf \u03ba\u03b1\u03c4\u03ac\u03c3\u03c4\u03b7\u03bc\u03b1",
    "science": "\u0394x = \u03bb\u00b7\u03bc, \u03c3\u00b2, 10 \u03bcm",
    "french": "Prix\u00a0: 3\u202f000\u00a0\u20ac",
    "german": "Stra\u00dfe, Gr\u00fc\u00dfe",
    "turkish": "kap\u0131 \u0130stanbul",
    "polish": "za\u017c\u00f3\u0142\u0107 g\u0119\u015bl\u0105 ja\u017a\u0144",
    "vietnamese": "c\u1eeda h\u00e0ng \u0111ang m\u1edf",
    "japanese": "\u5e97\u306f\u958b\u3044\u3066\u3044\u307e\u3059\u3002",
    "chinese": "\u5546\u5e97\u5f00\u7740\uff0c\u6b22\u8fce",
    "korean": "\uac00\uac8c\uac00 \uc5f4\ub838\uc2b5\ub2c8\ub2e4",
    "hindi": "\u0926\u0941\u0915\u093e\u0928 \u0915\u094d\u200d\u0937",
    "thai": "\u0e23\u0e49\u0e32\u0e19\u0e40\u0e1b\u0e34\u0e14",
    "emoji": "\u2764\ufe0f 1\ufe0f\u20e3 \U0001f469\u200d\U0001f4bb \u26a0\ufe0f",
    "signs": "\u00a9\ufe0f 2026 \u2013 \u201cquoted\u201d \u2026",
}
PATHS = {
    "locales/{}.json": '{{\n "a": "b",\n "c": "{}"\n}}\n',
    "docs/{}.md": "# Shop\n\n{}\n",
    "i18n/{}.po": 'msgid "a"\nmsgstr "{}"\n',
    "web/src/{}.html": "<p>{}</p>\n",
    "tests/data/{}.txt": "{}\n",
}
NAMES = (
    "\u0444\u0430\u0439\u043b.txt \u0434\u043e\u043a\u0443\u043c\u0435\u043d\u0442\u044b/\u043e\u0442\u0447\u0451\u0442.md"
    " src/\u043c\u043e\u0434\u0443\u043b\u044c.py \u03b1\u03c1\u03c7\u03b5\u03af\u03bf.txt \u6587\u6863/\u8bf4\u660e.md"
    " \u30c7\u30fc\u30bf.csv \ub370\uc774\ud130.json na\u00efve.txt Stra\u00dfe.md \u0645\u0644\u0641.txt"
    " \u05e7\u05d5\u05d1\u05e5.txt"
    " API-\u0434\u043e\u043a\u0438.md \u0111\u01a1n.txt caf\u00e9/menu.yaml"
)
ORDINARY = (
    "config/app.yaml config/template.yaml src/app.json docs/app.yaml server/app.yaml shop/json.py src/shop/types.py"
    " app/utils/logging.py"
    " src/shop/random.py src/tasks.py shop/tasks.py web/src/compose.ts lib/storybook.py src/mailmap.py docs/nvmrc.md"
    " src/plugin.ts"
    " src/hardhat.ts data/pod.yaml deploy/service.yaml charts/shop/values.yaml k9s/x.yaml i18n/a.yaml tsconfig.json"
    " src/META-INF/readme.txt .env.example .env.sample .python-version src/privileged.py tests/test_random.py"
    " shop/email/__init__.py"
)


def _update(text: str, new: str) -> str:
    """Return a lock file with a new version and checksum."""
    text = text % new
    for old, later in (("1.0.0", "1.0.1"), ("1.0", "1.1"), ("@1/", "@2/")):
        if old in text:
            return text.replace(old, later)
    raise ValueError(text)


def cases() -> Iterator[Case]:
    """Yield every harmless change."""
    for path, text in COMMENTED.items():
        first, _, rest = text.partition("\n")
        yield from (Case("comments and help", path, text, f"{first}\n{line}\n{rest}") for line in COMMENTS)
    target = "help:\n\tpython3 -m shop\n"
    yield from (Case("comments and help", "Makefile", target, f"{target}{line}\n") for line in HELP)
    yield Case("comments and help", "Makefile", "build: a\n\tcc a\n", "build: a  ## Build the program\n\tcc a\n")
    yield from (Case("comments and help", ".gitignore", "*.o\n", f"*.o\n{line}\n") for line in LOGS)
    for name, text in SCRIPTS.items():
        yield from (Case("languages", place.format(name.replace(" ", "-")), frame.format("x"), frame.format(text))
                    for place, frame in PATHS.items())  # fmt: skip
    yield from (Case("names in other scripts", path, None, "x\n") for path in NAMES.split(" ") if path)
    for width in (120, 400):
        row = "".join(f"{word:<{width}}" for word in ("id", "name", "total")) + "\n"
        yield from (Case("wide tables", f"data/{width}.{end}", "id\n", f"id\n{row}") for end in ("csv", "tsv", "dat"))
        yield Case("wide tables", f"docs/{width}.md", "# T\n", f"# T\n| {row.rstrip()} |\n")
        yield Case("wide tables", f"src/{width}.c", "int n;\n", f"int n;\n#define A(x){' ' * 90}\\\n  x\n")
    yield from (Case("similar to what a rule names", path, "a: 1\n", "a: 1\nb: 2\n") for path in ORDINARY.split())
    for folder in ("deploy/", "charts/shop/templates/"):
        for line in ("      securityContext:\n        privileged: false\n", "      args: [serve]\n", "  restartPolicy: Always\n"):
            yield Case("similar to what a rule names", f"{folder}pod.yaml", POD, POD + line)
    yield from (Case("versions and lock files", path, text % old, _update(text, new)) for path, text, old, new in LOCKS
                if path not in ("requirements.txt", "poetry.lock") or "1.0" in text)  # fmt: skip
    yield from (
        Case("shorter files", f"src/{number}.py", "x = 1\n" * 300, "x = 1\n" * (300 - 60 * number)) for number in range(1, 5)
    )
