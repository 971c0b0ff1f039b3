"""Multimodal models behind a chat server: what is sent, what comes back, and what a server can do."""
