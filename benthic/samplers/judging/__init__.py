"""What chains visited and how far to trust it."""
