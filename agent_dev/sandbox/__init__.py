"""The sandbox: its plan, bubblewrap, Landlock, seccomp, and the processes that start and monitor it."""
