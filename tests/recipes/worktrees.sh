#!/bin/sh
# Two agents at once, each in a git work tree and on a branch of its own.
set -eu
here=$(pwd)
agent-dev -q --no-merge --worktree one -- sh -c 'echo one >one.txt; git add one.txt; git commit -qm "Add one"' &
first=$!
agent-dev -q --no-merge --worktree two -- sh -c 'echo two >two.txt; git add two.txt; git commit -qm "Add two"'
wait "$first"
agent-dev sessions
for name in one two; do
    agent-dev -C "$here.$name" merge --commits
    test "$(git log -1 --format=%s "$name")" = "Add $name"
done
agent-dev clean
git worktree list
