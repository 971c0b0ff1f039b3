"""Evidence as the object that shap plots."""

from typing import Any

import numpy as np

from whymask.arrays import Floats
from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas


def to_shap(heatmap: Floats, canvas: Canvas, label: str, base: float) -> Any:
    """A shap.Explanation of one image and one answer, in the shapes of shap's own image explainers.

    The values are not Shapley values and do not add up to the score: summed over the colours they are the heatmap.

    Args:
        heatmap: (H, W) the value of every pixel.
        canvas: (H, W, 3) what the model saw.
        label: the name of the answer.
        base: the score of an empty image.
    """
    try:
        import shap
    except ImportError:
        raise WhymaskError("to_shap needs shap: pip install shap.") from None
    values = np.repeat(heatmap[None, :, :, None, None] / 3, 3, axis=3)  # (1, H, W, 3, 1)
    return shap.Explanation(values, base_values=np.array([[base]]), data=canvas[None], output_names=[label])
