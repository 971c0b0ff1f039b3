"""Which few regions of an image are enough for a vision model's answer."""

from whymask.errors import WhymaskError

__version__ = "0.1.0"
__all__ = ["WhymaskError", "__version__"]
