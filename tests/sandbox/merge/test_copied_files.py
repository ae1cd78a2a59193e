"""A file that the agent copied is told as a copy by `status` and `diff`, and git takes the patch."""

import json
import subprocess
from pathlib import Path

from tests.harness.program import AgentDev

TEXT = "".join(f"line {number} of a module\n" for number in range(9))


def test_a_copied_file_is_shown_and_its_patch_applies(agent_dev: AgentDev, repo: Path) -> None:
    (repo / "module.py").write_text(TEXT)
    (repo / "untracked.py").write_text(TEXT + "more\n")
    agent_dev.git("add", "module.py")
    agent_dev.git("commit", "-qm", "module")
    script = "cp module.py copy.py; cp untracked.py second.py; chmod +x copy.py"
    assert agent_dev("--no-merge", "--", "sh", "-ec", script).returncode == 0

    changes = json.loads(agent_dev("status", "--json").stdout)["changes"]
    assert {one["path"]: (one["kind"], one["from"]) for one in changes} == {
        "copy.py": ("copied", "module.py"),
        "second.py": ("added", None),  # git does not know its origin
    }
    assert "copied   copy.py (from module.py)" in agent_dev("status").stdout

    patch = agent_dev("diff").stdout
    assert "copy from module.py\ncopy to copy.py\n" in patch
    subprocess.run(["git", "apply", "--index"], input=patch, text=True, cwd=repo, check=True)
    assert (repo / "copy.py").read_text() == TEXT
    agent_dev.git("reset", "-q", "--hard")
    agent_dev("merge", "--take", "copy.py")
    assert ((repo / "copy.py").read_text(), (repo / "second.py").exists()) == (TEXT, False)
