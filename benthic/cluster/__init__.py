"""Grouping rows that are alike."""
