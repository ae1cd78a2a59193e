"""A root of a session: a directory that the sandbox shows as an overlay."""

from agent_dev.value import Value


class Root(Value):
    """A directory that the agent changes through an overlay."""

    path: str
    upper: str
    work: str
    ended_upper: str = ""  # the upper of an ended session, which is shown below this one
