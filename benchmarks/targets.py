"""What one search for several answers keeps of what each answer's own search keeps.

On photos the answers are the likeliest classes of a classifier. For each, the score of the mask from the joint search
is divided by that of a search of its own, with the budget that such a search usually has.

Run: python benchmarks/targets.py run OUT.jsonl --photos 100 --top 5
     python benchmarks/targets.py table OUT.jsonl
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import whymask
from whymask.explainer.explainer import Explainer
from whymask.models.base import Model

PHOTOS = Path(__file__).parents[2] / "shared" / "data" / "imagenet"


@dataclass(frozen=True)
class Row:
    """The masks of one photo."""

    photo: str
    setting: str
    forwards: int  # of the joint search
    alone: tuple[int, ...]  # of each answer's own
    scores: tuple[float, ...]  # of the masks of the joint search
    own: tuple[float, ...]  # of those of the searches alone
    regions: tuple[int, ...]
    own_regions: tuple[int, ...]


def row(photo: Path, model: Model, top: int, **settings) -> Row:
    """Explain the likeliest classes of a photo together, and each alone."""
    explainer = Explainer(model, **settings)
    found = explainer.answers(photo, top=top)
    alone = [explainer.explain(photo, target=mask.target.index) for mask in found]
    return Row(
        photo.name, " ".join(f"{name}={value}" for name, value in settings.items()) + f" top={top}",
        found.ledger.mec, tuple(one.ledger.mec for one in alone), tuple(mask.score for mask in found),
        tuple(one.score for one in alone), tuple(len(mask.regions) for mask in found),
        tuple(len(one.regions) for one in alone),
    )  # fmt: skip


def halves(folder: Path = PHOTOS) -> tuple[list[Path], list[Path]]:
    """The photos for tuning, and those for reporting."""
    files = sorted(folder.glob("*.jpg"))
    return files[::2], files[1::2]


def table(rows: Iterable[Row]) -> str:
    """Markdown: a line per setting."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for one in rows:
        groups[one.setting].append(one)
    head = (
        "| setting | photos | forwards, together | alone, one answer | score kept, mean | capped at 1 | median | 10th "
        "percentile | regions, together | alone |"
    )
    return "\n".join([head, "|---|" + 9 * "---:|", *(_line(name, some) for name, some in groups.items())])


def _line(name: str, rows: Sequence[Row]) -> str:
    shares = np.array([a / max(b, 1e-6) for one in rows for a, b in zip(one.scores, one.own, strict=True)])
    together, alone = np.mean([one.forwards for one in rows]), np.mean([mec for one in rows for mec in one.alone])
    regions = [np.mean([k for one in rows for k in getattr(one, which)]) for which in ("regions", "own_regions")]
    kept = (shares.mean(), shares.clip(max=1).mean(), np.median(shares), np.percentile(shares, 10))
    shown = " | ".join([*(f"{share:.3f}" for share in kept), *(f"{count:.1f}" for count in regions)])
    return f"| {name} | {len(rows)} | {together:.0f} | {alone:.0f} | {shown} |"


def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--tuning", action="store_true", help="the half for tuning in place of that for reporting")
    parser.add_argument("--settings", default='{"k": 8, "fill": "black"}', help="of whymask.explain, as JSON")
    options = parser.parse_args()
    if options.what == "table":
        lines = options.file.read_text(encoding="utf-8").splitlines()
        print(table(Row(**json.loads(line)) for line in lines))
        return
    model = whymask.load(options.model, device=options.device)
    tuning, reporting = halves()
    photos = (tuning if options.tuning else reporting)[options.first : options.first + options.photos]
    for photo in photos:
        found = row(photo, model, options.top, **json.loads(options.settings))
        with options.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(vars(found)) + "\n")


if __name__ == "__main__":
    main()
