"""Copy files of the user's agents from the real home to the agent home, on request (`agent-dev home --import`)."""
