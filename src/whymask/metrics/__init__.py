"""Numbers that say how good an explanation is."""
