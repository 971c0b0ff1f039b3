"""Pictures of results. A view never calls a model."""
