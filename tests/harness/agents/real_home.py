"""Files of agents in a user's real home: what `home --import` offers, and what it must leave alone."""

import json
import os
from pathlib import Path
from typing import Any

LOGINS = (".claude/.credentials.json", ".claude.json", ".codex/auth.json")
SETTINGS: dict[str, Any] = {
    "model": "opus",
    "env": {"A_TOKEN": "abcdefgh1234"},
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "sh ~/.claude/hooks/done.sh"}]}]},
}
CODEX = '# mine\nmodel = "gpt"\n'


def lay_out(home: Path) -> None:
    """Create settings, memory, skills, hooks, servers and logins of Claude Code and Codex."""
    texts = {
        ".claude/CLAUDE.md": "be kind\n",
        ".claude/settings.json": json.dumps(SETTINGS | {"log": f"{home}/logs/x"}),
        ".claude/skills/a/SKILL.md": "---\nname: a\n---\ntext\n",
        ".claude/skills/a/run.sh": "#!/bin/sh\n",
        ".claude/hooks/done.sh": "#!/bin/sh\n",
        ".claude/.credentials.json": "canary-claude\n",
        ".claude.json": json.dumps(
            {"oauthAccount": {"x": "canary-account"}, "projects": {}, "mcpServers": {"db": {"command": "npx"}}}
        ),
        ".codex/config.toml": CODEX,
        ".codex/auth.json": "canary-codex\n",
        "logs/x": "",
    }
    for name, text in texts.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in (".claude/skills/a/run.sh", ".claude/hooks/done.sh"):
        (home / name).chmod(0o755)


def add_strange_files(folder: Path) -> dict[str, str]:
    """Add to a directory what cannot be copied; return the beginning of the reason of each name."""
    (folder / "in").symlink_to("SKILL.md")
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "gone").symlink_to("../nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "e\x1b[2J\n\u202e").write_text("x")
    (folder / os.fsdecode(b"\xff")).write_text("x")
    with open(folder / "huge", "wb") as file:
        file.truncate(1 << 40)
    (folder / ".env").write_text("KEY=canary-key\n")
    (folder / ".git").mkdir()
    return {
        "in": "a link to SKILL.md",
        "out": "a link out of your home to /etc/passwd",
        "gone": "a link to ../nowhere",
        "pipe": "a fifo",
        "e\x1b[2J\n\u202e": "its name has",
        os.fsdecode(b"\xff"): "its name has",
        "huge": "larger than 4 MiB",
        ".env": "its name is that of a password",
        ".git": "a git directory",
    }
