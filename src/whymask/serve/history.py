"""Past results: one file each in a folder, under ids that only the server makes."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from whymask.errors import WhymaskError
from whymask.files import writable
from whymask.results import EvidenceMask, Explanation, Ordering
from whymask.views.document import thumbnail

SHOWN = 24


class History:
    """The results in a folder."""

    def __init__(self, folder: Path) -> None:
        writable(folder)
        self.folder = folder
        self.entry = lru_cache(maxsize=4 * SHOWN)(self._entry)

    def path(self, name: str) -> Path | None:
        """The file of an id; anything else a client may call an id has none."""
        path = self.folder / f"{name}.npz"
        return path if re.fullmatch(r"[0-9a-f]{16}", name, re.ASCII) and path.is_file() else None

    def save(self, name: str, result: EvidenceMask | Ordering) -> None:
        """Keep a result."""
        result.save(self.folder / f"{name}.npz")

    def load(self, name: str) -> EvidenceMask | Ordering | None:
        """The result of an id, where there is one."""
        path = self.path(name)
        if path is None:
            return None
        result: EvidenceMask | Ordering = Explanation.load(path)
        return result

    def latest(self) -> list[dict[str, Any]]:
        """What to show of the latest results, newest first."""
        files = [(path.stat().st_mtime, path.stem) for path in self.folder.glob("*.npz") if self.path(path.stem)]
        entries = [self.entry(name) for _, name in sorted(files, reverse=True)[:SHOWN]]
        return [entry for entry in entries if entry]

    def _entry(self, name: str) -> dict[str, Any] | None:
        try:
            result = self.load(name)
        except WhymaskError:
            return None  # a file that somebody else put there
        assert result is not None
        told = {setting: result.provenance.get(setting) for setting in ("method", "model", "question")}
        return {"id": name, "label": result.target.label, **told, "thumbnail": thumbnail(result.scene.photo)}
