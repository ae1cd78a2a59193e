"""What is measured, how, and against whom: ratios within one interleaved run, so that noise hits all alike."""
