"""Run agent-dev with `python -m agent_dev`."""

from agent_dev.cli.main import main

if __name__ == "__main__":
    main()
