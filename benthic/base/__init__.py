"""What every model is made of: the contract, arrays in and out, schemas, the catalogue, model files."""
