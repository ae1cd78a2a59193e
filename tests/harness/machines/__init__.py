"""Other machines for tests: hosts for ssh, and a Slurm cluster."""
