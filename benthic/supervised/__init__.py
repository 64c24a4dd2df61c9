"""Networks as predictors."""
