#!/bin/sh
# An agent works in a clone on another machine; its session is brought here and applied. Usage: ssh.sh HOST PATH-OF-THE-CLONE
set -eu
host=$1
clone=$2
ssh "$host" "cd '$clone' && agent-dev --no-merge --name remote -- sh -c 'echo done >from-host.txt'"
ssh "$host" "cd '$clone' && agent-dev bundle remote -" | agent-dev import - --name from-host
agent-dev merge from-host --all
test "$(cat from-host.txt)" = done
