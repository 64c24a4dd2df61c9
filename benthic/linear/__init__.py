"""Models whose scores are linear in the features."""
