"""Settings searched for under the budget of a comparison."""
