"""Images: reading them, dividing them into regions, masking regions."""
