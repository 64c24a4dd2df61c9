"""Optimizers, schedules and line searches."""
