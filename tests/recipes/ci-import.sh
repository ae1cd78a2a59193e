#!/bin/sh
# At home, in a clone of the repository: import the session of a CI job, review it, and apply its changes.
set -eu
artifacts=$1
agent-dev bundle --show "$artifacts/session.bundle"
agent-dev import "$artifacts/session.bundle" --name from-ci
agent-dev diff from-ci
agent-dev merge from-ci --all
