"""Files and a directory for tests of merges."""

from tests.harness.trees import DIRECTORY, FILE, Node

OLD, NEW, YOURS = Node(FILE, b"old"), Node(FILE, b"new"), Node(FILE, b"mine")
FOLDER = Node(DIRECTORY, b"", 0o755)
