"""Run crun for podman; a container whose process has another user ID than 0 gets a user namespace that maps this ID.

podman has one user ID here, which is 0 in its containers. A process with another ID (`USER` of an image, `--user`) would not
start. So the ID and its group become the only ones of the container, and all files of the image belong to them. Run as a script,
after a line that sets the path of crun.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the line before this script sets it
    CRUN = ""

_CONFIG = "config.json"
_ROOT = 0


def main() -> None:
    """Change the configuration of a new container if necessary, and execute crun. Never returns."""
    arguments = sys.argv[1:]
    if "create" in arguments and "--bundle" in arguments:
        map_user(arguments[arguments.index("--bundle") + 1])
    os.execv(CRUN, [CRUN, *arguments])


def map_user(bundle: str) -> None:
    """Map the user of a container's process, if it is not root, in the configuration."""
    import json  # takes half as long as starting Python, and most calls do not create a container

    with open(f"{bundle}/{_CONFIG}", "rb") as file:
        config = json.load(file)
    user = config["process"]["user"]
    kinds = [namespace["type"] for namespace in config["linux"]["namespaces"]]
    if user.get("uid", _ROOT) == _ROOT or "user" in kinds:
        return
    user.pop("additionalGids", None)
    config["linux"]["namespaces"].append({"type": "user"})
    for name, number in (("uidMappings", user["uid"]), ("gidMappings", user.get("gid", _ROOT))):
        config["linux"][name] = [{"containerID": number, "hostID": _ROOT, "size": 1}]
    with open(f"{bundle}/{_CONFIG}.new", "w", encoding="utf-8") as file:
        json.dump(config, file)
    os.rename(f"{bundle}/{_CONFIG}.new", f"{bundle}/{_CONFIG}")


if __name__ == "__main__":
    main()
