"""How long the table of a large run takes: 1,000 samples, 8 methods, intervals and paired differences.

Run: python benchmarks/table_speed.py
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from whymask.bench.records import Row, Store
from whymask.bench.render import as_markdown
from whymask.bench.table import CURVES, table

SAMPLES, METHODS = 1000, 8

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        rows = [
            Row("net", "correct", f"method {i}", {}, "insertion_auc", "ordering", "sets", (0, 0, i))
            for i in range(METHODS)
        ]
        store.declare(rows)
        lines = []
        for row in rows:
            for sample in range(SAMPLES):
                numbers = dict(zip(CURVES, rng.random(len(CURVES)).tolist(), strict=True))
                about = {"key": row.key(str(sample), 0), "row": row.hash, "sample": str(sample), "seed": 0}
                cost = {"mec": 3700, "seconds": 1.0, "order": list(range(64)), "mask": list(range(8))}
                lines.append({**about, **numbers, **cost})
        Path(folder, "records-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        started = time.perf_counter()
        text = as_markdown(table([folder], against="method 0"))
        print(f"{SAMPLES} samples x {METHODS} methods: {time.perf_counter() - started:.2f} s")
