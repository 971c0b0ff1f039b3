"""Files, names and texts: what is not about images or models."""
