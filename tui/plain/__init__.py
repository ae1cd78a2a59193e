"""The review as a line-by-line dialogue, without a full screen."""
