"""Explainer: a model and settings. Case: one image on it, where searches, which know only sets, meet pixels."""
