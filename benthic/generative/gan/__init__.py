"""Models trained by a contest: a generator that makes examples and a critic that tells them from real ones."""
