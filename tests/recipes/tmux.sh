#!/bin/sh
# An agent in a tmux session that keeps running when its terminal is closed; then its changes are applied. Usage: tmux.sh NAME
set -eu
name=$1
tmux new-session -d -s "$name" -x 100 -y 30 "agent-dev --no-merge --name $name -- sh -c 'echo done >from-tmux.txt'; tmux wait-for -S $name"
tmux wait-for "$name"
agent-dev merge "$name" --all
test "$(cat from-tmux.txt)" = done
