#!/bin/sh
# A step of a CI job: an agent does a task, its tests must pass, and the review is kept as an artifact.
set -eu
artifacts=$1
status=0
agent-dev tx --validate 'test -s answer.txt' --json -- sh -c 'echo 42 >answer.txt' >"$artifacts/result.json" || status=$?
agent-dev tx --validate 'false' --json -- sh -c 'echo wrong >other.txt' >"$artifacts/failed.json" || status=$?
test "$status" -ne 0
agent-dev merge --html "$artifacts/review.html"
test -s "$artifacts/review.html"
test "$(cat answer.txt)" = 42
test ! -e other.txt
