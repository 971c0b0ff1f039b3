"""All records of runs as one Parquet file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whymask.bench.table import read
from whymask.errors import WhymaskError
from whymask.models.packages import optional
from whymask.utils.files import atomic


def export(runs: Sequence[str | Path], out: Path) -> int:
    """Write a line per result and failure: what was measured, the row's names and its settings (as JSON).

    Returns how many there are. Numbers that a method does not have are null, and so is the error of a result.
    """
    pyarrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    if pyarrow is None or parquet is None:
        raise WhymaskError("Parquet files need pyarrow: pip install 'whymask[bench]'.")
    found = read(runs)
    lines: list[dict[str, Any]] = []
    for record in [*found.records.values(), *found.errors]:
        row = found.rows[record["row"]]
        names = dict(zip(("model", "split", "method"), row.names, strict=True))
        lines.append({**names, **record, "settings": json.dumps(row.settings, sort_keys=True)})
    columns = dict.fromkeys(name for line in lines for name in line)
    with atomic(out) as file:
        parquet.write_table(pyarrow.table({name: [line.get(name) for line in lines] for name in columns}), file)
    return len(lines)
