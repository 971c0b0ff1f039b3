"""Searches behind interfaces that other tools expect.

`whymask.interop.captum` and `whymask.interop.quantus` explain any torch model the way callers of those libraries ask
for it, `whymask.interop.coco` writes masks as COCO does. None of them needs the library it is named after; where captum
is installed, the class is one of its own attributions. `whymask.interop.shap` makes shap's own object, and needs shap.
"""
