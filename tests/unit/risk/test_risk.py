"""The changes that need review: the shipped rules over group G of the containment list, and over harmless changes."""

from pathlib import Path

import pytest

from agent_dev.config import schema, strict_yaml
from agent_dev.diff import hunks
from agent_dev.fs.entry import Entry, FileType, Key
from agent_dev.overlay.changes import Change, ChangeKind
from agent_dev.path_patterns import fold_path
from agent_dev.risk import content, risk_rules
from agent_dev.risk.risk_rules import RiskRule, find_risks

SHIPPED = Path(__file__).parents[3] / "profiles" / "risks.yaml"
FILE = Entry(FileType.FILE)


def shipped() -> tuple[RiskRule, ...]:
    tree, problems = strict_yaml.parse_tree(SHIPPED.read_bytes())
    checked = schema.check_risk_rules(tree, risk_rules.CHOICES)
    assert (problems, checked.problems) == ((), ())
    return tuple(RiskRule(name=name, **rule) for name, rule in checked.fields.items())  # type: ignore[arg-type]


RULES = shipped()


def added(path: str | bytes, entry: Entry = FILE) -> Change:
    name = path if isinstance(path, bytes) else path.encode()
    return Change(Key(0, name), ChangeKind.ADDED, None, entry)


def names(change: Change, head: bytes = b"") -> list[str]:
    return [one.rule for one in find_risks(change, RULES, head)]


PLANTED = {
    "git-internals": ".git/hooks/post-checkout .git/config vendor/x/.git/config .git sub/.git GIT~1/config",
    "agent-instructions": (
        "CLAUDE.md AGENTS.md GEMINI.md sub/dir/CLAUDE.md .cursorrules .cursor/rules/a.mdc .github/copilot-instructions.md"
        " .claude/agents/x.md .claude/commands/y.md .claude/skills/z/SKILL.md sub/.claude/commands/y.md"
    ),
    "agent-settings": (
        ".claude/settings.json .claude/settings.local.json .mcp.json .cursor/mcp.json .codex/config.toml"
        " .gemini/settings.json .agents/x sub/.claude/settings.json"
    ),
    "editor-settings": (
        ".vscode/tasks.json .vscode/settings.json .vscode/launch.json .vscode/extensions.json my.code-workspace"
        " .idea/workspace.xml .zed/settings.json .nvim.lua .exrc .dir-locals.el .devcontainer/devcontainer.json"
    ),
    "directory-environment": ".envrc sub/.envrc",
    "package-manifest": "package.json packages/a/package.json composer.json",
    "package-scripts": ".pnpmfile.cjs .yarn/releases/yarn-4.cjs turbo.json",
    "package-source": ".npmrc .yarnrc.yml bunfig.toml",
    "package-lock-binary": "bun.lockb",
    "python-startup": "setup.py conftest.py tests/conftest.py sitecustomize.py evil.pth noxfile.py",
    "python-settings": "pyproject.toml",
    "test-settings": "tox.ini pytest.ini setup.cfg",
    "rust-build": "build.rs crates/a/build.rs .cargo/config.toml rust-toolchain.toml",
    "rust-settings": "Cargo.toml",
    "build-file": "Makefile justfile CMakeLists.txt x.cmake gradlew gradle/wrapper/gradle-wrapper.properties .mvn/a Gemfile",
    "go-settings": "go.work",
    "container": "Dockerfile Dockerfile.dev compose.yaml docker-compose.override.yml Vagrantfile",
    "deployment": "ansible.cfg main.tf infra/x.tf",
    "shell-startup": ".bashrc .zshrc .profile .ripgreprc home/.config/fish/config.fish",
    "tool-settings": "vite.config.ts jest.config.js .eslintrc.json web/webpack.config.cjs",
    "packed": "a.zip dist/x.tar.gz",
    "pickled": "model.pkl",
    "other-internals": ".hg/hgrc",
    "installed-programs": "node_modules/.bin/tsc web/node_modules/.bin/eslint",
    "ci": (
        ".github/workflows/deploy.yml .github/workflows/sub/x .gitlab-ci.yml ci/x.gitlab-ci.yml Jenkinsfile Jenkinsfile.nightly"
        " .circleci/config.yml"
    ),
    "commit-hooks": ".pre-commit-config.yaml .husky/pre-commit lefthook.yml sub/.husky/_/husky.sh",
    "code-owners": "CODEOWNERS .github/CODEOWNERS docs/CODEOWNERS",
    "git-settings": ".gitattributes .gitmodules .lfsconfig src/.gitattributes",
    "git-ignore": ".gitignore src/.gitignore",
    "own-settings": ".agent-dev.yaml .agent-dev .agent-dev/config.yaml sub/.agent-dev.yml",
    "loadable": "lib/x.so libz.so.1.2.3 a.jar b.wasm native.node evil.DLL",
}


@pytest.mark.parametrize(("rule", "path"), [(rule, path) for rule, paths in PLANTED.items() for path in paths.split()])
def test_files_that_run_later_outside_are_recognized_by_path(rule: str, path: str) -> None:
    assert rule in names(added(path))
    assert risk_rules.has_risky_name(added(path), RULES)


HARMLESS = (
    "src/app.py README.md docs/claude.txt docs/CLAUDE.md.txt src/git/config.py git/hooks/x src/package.json.py tests/test_x.py"
    " my-gitignore vscode/tasks.json idea/a.xml src/so.py lib/also.sol nodes.txt a.jarx .github/ISSUE_TEMPLATE/bug.md"
    " github/workflows/x.yml .gitx/hooks/y x.git/config.txt workflows/a.yml CODEOWNERS.md package/json agent-dev.py Jenkins/x.txt"
    " node_modules/left-pad/index.js docs/node_modules.md .env.example static/app.css data.json pnpm/lock.yaml docs/.bin/x"
)


@pytest.mark.parametrize("path", HARMLESS.split())
def test_similar_paths_are_no_risk(path: str) -> None:
    assert names(added(path)) == []
    assert not risk_rules.has_risky_name(added(path), RULES)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".GIT/hooks/x", "git-internals"),
        (".Vscode/Tasks.JSON", "editor-settings"),
        ("claude.MD", "agent-instructions"),
        (".g\u200cit/hooks/x", "git-internals"),
        (".gi\ufefft/config", "git-internals"),
        (".V\u017fCODE/tasks.json", "editor-settings"),  # long s, which folds to s
        ("\uff35ni/.git/config", "git-internals"),
    ],
)
def test_case_and_unicode_normal_form_hide_nothing(path: str, rule: str) -> None:
    assert rule in names(added(path))


def test_both_normal_forms_of_an_accent_match() -> None:
    rules = (RiskRule("x", "why", paths=("cafe\u0301.txt",)),)

    assert find_risks(added("CAF\u00c9.txt"), rules)
    assert find_risks(added("sub/caf\u00e9.txt"), rules)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (b"\xff\xfe/.git/config", "git-internals"),
        (b".vscode/\xff\x1b[2J", "editor-settings"),
        (b"a\nb/CLAUDE.md", "agent-instructions"),
        (b".husky/a\nb", "commit-hooks"),
        (b"a\nb.so", "loadable"),
        (b"libx.so.1\n", "loadable"),
        (b".agent-dev\n", "own-settings"),
        (b"a\nb/libx.so.1", "loadable"),
        (b"x" * 255 + b"/.npmrc", "package-source"),
    ],
)
def test_hostile_names_hide_nothing(path: bytes, rule: str) -> None:
    assert rule in names(added(path))


@pytest.mark.parametrize("path", [b"CLAUDE.md\n", b"\n.npmrc", b".git\nx/config", b"\xff", b"a\xffb/c", b"*", b"[", b"\\"])
def test_other_unusual_names_do_not_match(path: bytes) -> None:
    assert names(added(path)) == []


HEADS = [
    (b"#!/bin/sh\n", "script"),
    (b"\x7fELF\x02\x01\x00", "program"),
    (b"MZ\x90\0\x03", "program"),
    (bytes.fromhex("cffaedfe"), "program"),
    (bytes.fromhex("cafebabe"), "program"),
    (b"\0asm\x01", "program"),
]


@pytest.mark.parametrize(("head", "rule"), HEADS)
@pytest.mark.parametrize("kind", [ChangeKind.ADDED, ChangeKind.EDITED, ChangeKind.RETYPED])
def test_programs_are_recognized_by_their_first_bytes(head: bytes, rule: str, kind: ChangeKind) -> None:
    change = Change(Key(0, b"data.txt"), kind, None if kind is ChangeKind.ADDED else FILE, FILE)

    gone = ["deletion"] if kind is ChangeKind.RETYPED else []  # another type replaces the existing entry
    assert sorted(names(change, head)) == sorted([rule, *gone])


@pytest.mark.parametrize("head", [b"", b"MZ stands for Mazda", b" #!/bin/sh", b"ELF", b"\x7fEL", b"plain text"])
def test_other_first_bytes_are_no_program(head: bytes) -> None:
    assert names(added("data.txt"), head) == []


def _modes(before: int | None, after: int, kind: ChangeKind) -> Change:
    was = None if before is None else Entry(FileType.FILE, before)
    return Change(Key(0, b"tool"), kind, was, Entry(FileType.FILE, after))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_modes(None, 0o755, ChangeKind.ADDED), ["executable"]),
        (_modes(None, 0o644, ChangeKind.ADDED), []),
        (_modes(0o644, 0o744, ChangeKind.METADATA), ["executable"]),
        (_modes(0o644, 0o645, ChangeKind.EDITED), ["executable"]),
        (_modes(0o755, 0o755, ChangeKind.EDITED), ["executable"]),
        (_modes(0o755, 0o700, ChangeKind.METADATA), []),
        (_modes(0o755, 0o644, ChangeKind.METADATA), []),
        (_modes(0o644, 0o4644, ChangeKind.METADATA), ["special-bits"]),
        (_modes(None, 0o2755, ChangeKind.ADDED), ["executable", "special-bits"]),
        (_modes(None, 0o1644, ChangeKind.ADDED), ["special-bits"]),
        (_modes(0o4755, 0o4755, ChangeKind.EDITED), ["executable"]),
    ],
)
def test_risky_modes_are_found(change: Change, found: list[str]) -> None:
    assert names(change) == found


def test_special_bits_of_a_directory_are_reported() -> None:
    assert names(added("dir", Entry(FileType.DIRECTORY, 0o2755))) == ["special-bits"]


LEAVING = [
    ("a", b"/etc/passwd", True),
    ("a", b"/", True),
    ("a", b"..", True),
    ("a", b"../x", True),
    ("d/a", b"../x", False),
    ("d/a", b"../../x", True),
    ("d/e/a", b"../../x", False),
    ("a", b"b/../../x", True),
    ("a", b"b/../c", False),
    ("a", b"./b//c", False),
    ("a", b"..x/...", False),
    ("a", b".git/hooks", True),
    ("d/a", b"../.GIT", True),
    ("a", b"docs/names.md", False),
    ("a", b"\xff/../..", True),
]


@pytest.mark.parametrize(("path", "target", "leaves"), LEAVING)
def test_symlinks_out_of_the_root_are_found(path: str, target: bytes, leaves: bool) -> None:  # noqa: FBT001
    link = Entry(FileType.SYMLINK, 0o777, target=target)

    assert names(added(path, link)) == (["link-leaves"] if leaves else [])


def test_a_symlink_that_replaces_a_watched_directory_is_found() -> None:
    link = Entry(FileType.SYMLINK, 0o777, target=b"docs")

    assert names(added(".husky", link)) == ["commit-hooks"]


def test_an_empty_directory_is_no_risk() -> None:
    assert names(added(".husky", Entry(FileType.DIRECTORY, 0o755))) == []


@pytest.mark.parametrize("type_", list(FileType))
def test_every_deletion_is_reported(type_: FileType) -> None:
    assert names(Change(Key(0, b"x"), ChangeKind.DELETED, Entry(type_), None)) == ["deletion"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("CODEOWNERS", ["code-owners", "deletion"]),
        (".gitignore", ["git-ignore", "deletion"]),
        (".gitattributes", ["git-settings", "deletion"]),
        (".agent-dev.yaml", ["own-settings", "deletion"]),
        (".github/workflows/ci.yml", ["deletion", "deleted-policy"]),
        ("vendor/x/LICENSE.md", ["deletion", "deleted-policy"]),
    ],
)
def test_deleting_a_safeguard_is_a_risk(path: str, found: list[str]) -> None:
    assert names(Change(Key(0, path.encode()), ChangeKind.DELETED, FILE, None)) == found


def test_the_content_of_a_deleted_program_is_no_risk() -> None:
    change = Change(Key(0, b"x.sh"), ChangeKind.DELETED, Entry(FileType.FILE, 0o755), None)

    assert names(change) == ["deletion"]


PATTERNS = [
    ("name", "name", True),
    ("name", "a/b/name", True),
    ("name", "name/x", False),
    ("dir/", "dir/x", True),
    ("dir/", "a/dir/b/c", True),
    ("dir/", "a/dirx/b", False),
    ("dir/", "a/xdir", False),
    ("a/b", "a/b", True),
    ("a/b", "x/a/b", False),
    ("a/b/", "a/b/c/d", True),
    ("a/b/", "x/a/b/c", False),
    ("/name", "name", True),
    ("/name", "a/name", False),
    ("**/a/b/", "x/y/a/b/c", True),
    ("**/a/b/", "a/b/c", True),
    ("**/a/b/", "xa/b/c", False),
    ("a/**/b", "a/b", True),
    ("a/**/b", "a/x/y/b", True),
    ("a/*/b", "a/x/b", True),
    ("a/*/b", "a/x/y/b", False),
    ("*.x", "a/b.x", True),
    ("*.x", "a/b.xy", False),
    ("*.x", ".x", True),
    ("*.x.*", "b.x.1", True),
    ("*.x.*", "b.x", False),
    ("*.x/", "a.x/b", True),
    ("n?me", "a/name", True),
    ("n?me", "n/me", False),
    ("a.b", "axb", False),
    ("[x]", "[x]", True),
    ("**", "a/b/c", True),
]


@pytest.mark.parametrize(("pattern", "path", "matches"), PATTERNS)
def test_patterns_match_as_documented(pattern: str, path: str, matches: bool) -> None:  # noqa: FBT001
    rules = (RiskRule("x", "why", paths=(pattern,)),)

    assert bool(find_risks(added(path), rules)) is matches


def test_all_conditions_of_a_rule_must_match() -> None:
    rules = (RiskRule("x", "why", paths=("*.sh",), content=("shebang",), kinds=("added",)),)

    assert find_risks(added("a.sh"), rules, b"#!/bin/sh")
    assert not find_risks(added("a.sh"), rules, b"")
    assert not find_risks(added("a.py"), rules, b"#!/bin/sh")
    assert not find_risks(Change(Key(0, b"a.sh"), ChangeKind.EDITED, FILE, FILE), rules, b"#!/bin/sh")


def test_changed_rules_replace_cached_ones() -> None:
    one, other = (RiskRule("one", "why", paths=("a",)),), (RiskRule("other", "why", paths=("a",)),)

    assert [found.rule for rules in (one, other, one) for found in find_risks(added("a"), rules)] == ["one", "other", "one"]


def test_risks_are_listed_in_the_order_of_the_rules() -> None:
    entry = Entry(FileType.FILE, 0o755)

    assert names(added(".git/CLAUDE.md", entry), b"#!") == ["git-internals", "agent-instructions", "executable", "script"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_has_a_reason_in_one_sentence(rule: RiskRule) -> None:
    assert rule.why.endswith(".")
    assert ". " not in rule.why
    assert len(rule.why) <= 140


def test_folding_is_correct_with_and_without_its_fast_path() -> None:
    assert fold_path(b"SRC/App.py") == "src/app.py"
    assert fold_path("Straße".encode()) == "strasse"
    assert fold_path(b"\xff") == "\udcff"


MANY, FEW = b"\n" * (hunks.MAX_DIFF_LINES + 1), b"\n" * hunks.MAX_DIFF_LINES


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, FEW, []),
        (None, MANY, ["no-diff"]),
        (FEW, FEW[1:] + b"x", []),
        (FEW, FEW + b"x", ["no-diff"]),
        (MANY, b"x\n" * 100_000, ["no-diff"]),
    ],
)
def test_a_change_without_a_diff_needs_review(before: bytes | None, after: bytes, expected: list[str]) -> None:
    old, new = (None if data is None else Entry(FileType.FILE, size=len(data)) for data in (before, after))
    change = Change(Key(0, b"data.txt"), ChangeKind.ADDED if old is None else ChangeKind.EDITED, old, new)
    found = [one.rule for one in find_risks(change, RULES, after, lambda: before or b"")]
    assert found == expected
    assert hunks.is_diffable(before or b"", after) == (not expected)
    assert risk_rules._LONG <= hunks.MAX_DIFF_LINES


def test_a_small_version_of_a_file_too_large_to_read_needs_review() -> None:
    old, new = (Entry(FileType.FILE, size=size) for size in (content.MAX_INSPECTED_SIZE + 1, content.MAX_INSPECTED_SIZE // 4))
    change = Change(Key(0, b"data.txt"), ChangeKind.EDITED, old, new)
    assert [one.rule for one in find_risks(change, RULES, b"new\n")] == ["no-diff"]


def test_a_changed_mode_of_a_file_with_many_lines_hides_nothing() -> None:
    entry = Entry(FileType.FILE, size=len(MANY))
    change = Change(Key(0, b"data.txt"), ChangeKind.METADATA, entry, entry.with_values(mode=0o600))
    assert find_risks(change, RULES, MANY, lambda: MANY) == ()
