"""Records of runs that never were."""

from whymask.bench.records import Row, Store


def row(method, place=0, split="correct", **changes):
    usual = {"settings": {"k": 8}, "emphasis": "insertion_auc", "returns": "ordering", "needs": "sets"}
    return Row("net", split, method, place=(0, 0, place), **{**usual, **changes})


def ordering(insertion, **more):
    curves = {"insertion_auc": insertion, "deletion_auc": 0.1, "at@30": 0.6, "at@50": 0.5, "high": 0.9}
    more = {"best@30": 0.7, "best@50": 0.8, **more}
    return {**curves, "mec": 100, "nominal": 110, "seconds": 2.0, **more}


def write(folder, rows):
    """rows: (row, {sample: numbers or an error}), or {(sample, seed): ...}."""
    folder.mkdir(exist_ok=True)
    store = Store(folder)
    store.declare([one for one, _ in rows])
    for one, results in rows:
        for sample, numbers in results.items():
            name, seed = sample if isinstance(sample, tuple) else (sample, 0)
            told = {"error": numbers} if isinstance(numbers, str) else numbers
            store.append({"key": one.key(name, seed), "row": one.hash, "sample": name, "seed": seed, **told})
    store.close()
    return folder
