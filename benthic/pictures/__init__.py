"""Pictures everyone shares; each function returns a matplotlib figure."""
