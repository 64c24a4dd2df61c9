"""Predictors and clusterings compared by cross-validation, with corrected tests."""
