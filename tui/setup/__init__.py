"""A form of questions with listed answers: `agent-dev init`."""
