"""Write the files that an agent's home gets unless it has them. The agent can write there: no link is followed."""

from agent_dev.config.agent_instructions import FIRST_LINE
from agent_dev.home.importing.target import Changed, TargetHome

_OURS = FIRST_LINE.encode()


def write_seeds(home: str, seeds: tuple[tuple[str, bytes], ...]) -> None:
    """Write each file that is missing, and renew instructions that begin as ours do; a file that cannot be written is left out.

    An agent that starts without its instructions still works, and it could itself have made the path unusable.
    """
    target = TargetHome(home)
    try:
        for path, content in seeds:
            try:
                before = target.read(path)
                if before is None or (before != content and content.startswith(_OURS) and before.startswith(_OURS)):
                    target.write(path, content, before)
            except (OSError, Changed):
                continue
    finally:
        target.close()
