"""What tests of figures share."""

from whymask.bench.table import table as made_table


def blocks(run):
    return made_table([run]).blocks


def drawn_texts(figure):
    """(text, its box in pixels) of everything a figure writes, once it is drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    FigureCanvasAgg(figure).draw()
    unseen = set()  # numbers beside an axis that ends before them
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        unseen |= {
            label for label, at in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True) if not low <= at <= high
        }
    texts = [one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip() and one not in unseen]
    return [(one.get_text(), one.get_window_extent()) for one in texts]


def check_layout(figure):
    """No text runs into another or into a picture, and none off the page."""
    texts = drawn_texts(figure)
    page = figure.bbox
    for i, (text, box) in enumerate(texts):
        inside = page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
        assert inside, (text, box)
        assert not any(axes.get_window_extent().overlaps(box) for axes in figure.axes if axes.images), text
        for other, beside in texts[:i]:
            apart = box.x1 <= beside.x0 or beside.x1 <= box.x0 or box.y1 <= beside.y0 + 0.5 or beside.y1 <= box.y0 + 0.5
            assert apart, (text, other)
