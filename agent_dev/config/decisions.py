"""Decisions of the command policy."""

ALLOW, DENY, CHECKPOINT, TRANSACT, ASK = "allow", "deny", "checkpoint", "transact", "ask"
DECISIONS = (ALLOW, DENY, CHECKPOINT, TRANSACT, ASK)
