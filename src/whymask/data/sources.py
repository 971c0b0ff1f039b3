"""All data sources by name: those of the package, registered ones, and those of installed packages."""

from whymask.data.base import Place, Source
from whymask.data.descriptions import Descriptions
from whymask.data.objects import Objects
from whymask.data.photos import Photos
from whymask.data.questions import Questions
from whymask.utils.registry import Registry

__all__ = ["SOURCES", "Place", "Source"]

SOURCES: Registry[type[Source]] = Registry("data source", "whymask.sources")
for _source in (Photos, Questions, Objects, Descriptions):  # also the order of their splits
    SOURCES.add(_source)
