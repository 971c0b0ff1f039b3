"""What comes back: evidence masks, orderings and repairs."""
