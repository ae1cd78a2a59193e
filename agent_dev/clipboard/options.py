"""Options of the server."""

from agent_dev.notification import NotificationSettings
from agent_dev.value import Value

SOCKET_NAME = "clipboard"  # in the session's folder


class ClipboardOptions(Value):
    """The program that reads the clipboard, the session's folder, and how the user is alerted, with the environment."""

    program: str
    folder: str
    notifications: NotificationSettings
