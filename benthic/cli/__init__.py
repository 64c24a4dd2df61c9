"""The command line: it knows the catalogue and the contract, and no model by name."""
