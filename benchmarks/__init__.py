"""Benthic beside its peers: one file a task, each measured in one run and reported as ratios."""
