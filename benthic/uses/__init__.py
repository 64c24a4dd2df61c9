"""What a fitted density or generator is good for: filling gaps, finding oddities, drawing under conditions."""
