"""One image on one model: where searches, which know only sets, meet pixels and scores."""
