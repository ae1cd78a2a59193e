"""The user inside, and the kernel's status of the agent's process."""

import os
import pwd

from agent_dev.sandbox.plan import INSIDE_USER
from tests.harness.program import AgentDev

NAME = pwd.getpwuid(os.getuid()).pw_name if os.getuid() else INSIDE_USER


def status_of_process(agent_dev: AgentDev) -> dict[str, str]:
    printed = agent_dev("--", "cat", "/proc/self/status").stdout
    return {name: value.strip() for name, _, value in (line.partition(":") for line in printed.splitlines())}
