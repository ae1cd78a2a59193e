"""Two SSH servers, of which one is allowed, and an ssh-agent behind the filter."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.program import AgentDev
from tests.harness.servers.sshd import Sshd, make_key, ssh_agent, sshd

SSH = "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


@dataclass
class SshWorld:
    """Two servers, of which one is allowed; a key for both, and another one that is not to be used."""

    program: AgentDev
    allowed: Sshd
    other: Sshd
    agent: Path
    key: Path
    second_key: Path

    def configure(self, **values: Any) -> None:
        folder = Path(self.program.env["XDG_CONFIG_HOME"]) / "agent-dev"
        folder.mkdir(parents=True, exist_ok=True)
        rules = {"hosts": [f"127.0.0.1:{self.allowed.port}"], "keys": [str(self.key)], **values}
        (folder / "config.yaml").write_text(json.dumps({"share": ["ssh-agent"], "ssh": rules}) + "\n")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script inside; `$SSH` is a command for the allowed server."""
        text = f"SSH='{SSH}'\n{script}"
        return self.program("--no-merge", "--ro", self.key, "--", "sh", "-c", text, env={"SSH_AUTH_SOCK": str(self.agent)})

    def log(self) -> list[str]:
        rows = json.loads(self.program.do("log", "--json"))["events"]
        return [f"{row['decision']} {row['text']}" for row in rows if row["event"] == "ssh"]


@contextmanager
def ssh_world(program: AgentDev, folder: Path) -> Iterator[SshWorld]:
    """Run the servers and the agent, with files in a folder."""
    key, second = make_key(folder / "key"), make_key(folder / "second")
    with sshd(folder / "one", key) as one, sshd(folder / "two", key, "ecdsa") as two, ssh_agent(folder, key, second) as agent:
        place = program.home / ".ssh"
        place.mkdir(mode=0o700, exist_ok=True)
        (place / "known_hosts").write_text(one.known_hosts + two.known_hosts)
        made = SshWorld(program, one, two, agent, key, second)
        made.configure()
        yield made
