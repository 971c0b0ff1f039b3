"""Past results: one private file each in a folder, under ids that only the server makes."""

import logging
import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from whymask.results.base import Explanation
from whymask.serve.examples import EXAMPLES
from whymask.utils.files import writable
from whymask.views.card import card

log = logging.getLogger(__name__)
SHOWN = 24


class History:
    """The results in a folder. Somebody else may put files there, so nothing is assumed about them."""

    def __init__(self, folder: Path) -> None:
        with suppress(OSError):  # `writable` says what is wrong
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
        writable(folder)
        self.folder = folder
        self.entry = lru_cache(maxsize=4 * SHOWN)(self._entry)

    def path(self, name: str) -> Path | None:
        """The file of an id or an example; anything else that a client may send as an id has none, nor has a link."""
        if name in EXAMPLES:
            return EXAMPLES[name].path
        path = self.folder / f"{name}.npz"
        known = re.fullmatch(r"[0-9a-f]{16}", name, re.ASCII) and path.is_file() and not path.is_symlink()
        return path if known else None

    def save(self, name: str, result: Explanation) -> None:
        """Keep a result in a file that only this user can read."""
        result.save(self.folder / f"{name}.npz", mode=0o600)

    def load(self, name: str) -> Explanation | None:
        """The result of an id, where there is one."""
        path = self.path(name)
        return None if path is None else Explanation.load(path)

    def read(self, name: str) -> bytes | None:
        """The file of an id, where there is one."""
        path = self.path(name)
        with suppress(OSError):  # it was deleted, or replaced by a link, meanwhile
            if path is not None:
                with open(path, "rb", opener=_no_link) as file:
                    return file.read()
        return None

    def delete(self, name: str) -> bool:
        """Delete a result; whether there was one. Examples stay."""
        path = self.path(name)
        if path is None or name in EXAMPLES:
            return False
        path.unlink(missing_ok=True)
        return True

    def latest(self) -> list[dict[str, Any]]:
        """What to show of the latest results, newest first, each with the time at which it was saved."""
        files = []
        for path in self.folder.glob("*.npz"):
            with suppress(OSError):  # it was deleted meanwhile
                if self.path(path.stem):
                    files.append((path.stat().st_mtime, path.stem))
        entries = [(self.entry(name), saved) for saved, name in sorted(files, reverse=True)[:SHOWN]]
        return [{**entry, "saved": saved} for entry, saved in entries if entry]

    def _entry(self, name: str) -> dict[str, Any] | None:
        try:
            result = self.load(name)
            assert result is not None
            return {"id": name, **card(result)}
        except Exception as error:  # whatever is in the file, the other results are shown
            log.warning("%s.npz is not shown: %s", name, type(error).__name__)
            return None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))
