"""The head: pure decisions over values. Nothing here touches a disk, a process or a clock."""
