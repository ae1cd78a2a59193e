#!/bin/sh
# A monorepo next to a library that is developed with it: one session, one review, one undo.
set -eu
agent-dev -q --no-merge --overlay ../library -- sh -c 'echo used >>app.txt; echo new >>../library/lib.txt'
test "$(cat app.txt ../library/lib.txt)" = "app
lib"
agent-dev merge --all
test "$(cat app.txt ../library/lib.txt)" = "app
used
lib
new"
agent-dev undo
test "$(cat app.txt ../library/lib.txt)" = "app
lib"
