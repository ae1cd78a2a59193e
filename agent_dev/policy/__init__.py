"""The command policy: its rules, and loading them."""
