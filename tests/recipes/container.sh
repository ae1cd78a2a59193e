#!/bin/sh
# Run a command in a rootless container that permits sandboxes, in the current directory. Usage: container.sh IMAGE COMMAND [ARG…]
# The image needs agent-dev, bubblewrap, git and Python. The volume keeps the agent home and the sessions.
set -eu
image=$1
shift
# shellcheck disable=SC2086  # a list of options
exec podman run --rm --security-opt seccomp=unconfined --security-opt unmask=ALL \
    --volume agent-dev-home:/home/agent --env HOME=/home/agent \
    --volume "$PWD:$PWD" --workdir "$PWD" ${PODMAN_OPTIONS-} "$image" "$@"
