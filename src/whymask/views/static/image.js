// One image with its regions: composes what a model saw, and paints the evidence on the photo.
// It never reads pixels back from a canvas: some browsers disturb what is read, to protect their users.
"use strict";

globalThis.whymask = globalThis.whymask ?? {};

whymask.ExplainedImage = class ExplainedImage {
  // Colours of evidence and of ranks: cividis, as in the figures, distinct in every kind of colour vision.
  static EVIDENCE = "#E69F00";
  static RANKS = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
  static DIMMED = 0.55; // how much darker the photo is where there is no evidence
  static UNSEEN = 0.25; // how much is left of the photo where the model does not look; there it is hatched, too

  /** Decode a picture of the document. */
  static async load(picture) {
    const [photo, canvas, fill] = await Promise.all(
      [picture.photo, picture.canvas, picture.fill].map(async (source) => {
        const image = new Image();
        image.src = source;
        await image.decode();
        return image;
      }),
    );
    return new ExplainedImage(picture, photo, canvas, fill);
  }

  constructor(picture, photo, canvas, fill) {
    Object.assign(this, { photo, canvas, fill, areas: picture.areas, box: picture.box });
    [this.width, this.height] = picture.size;
    this.labels = new Uint16Array(this.width * this.height);
    for (let i = 0, at = 0; i < picture.runs.length; i += 2) {
      this.labels.fill(picture.runs[i], at, (at += picture.runs[i + 1]));
    }
    this.n = this.areas.length;
    this.whole = this.box[0] <= 0 && this.box[1] <= 0 && this.box[2] >= 1 && this.box[3] >= 1; // nothing is cropped
    this.stencil = layer(this.width, this.height);
    this.cut = layer(this.width, this.height);
    this.scale = Math.max(1, 1024 / Math.max(photo.naturalWidth, photo.naturalHeight));
  }

  /** What the model sees of the regions in `kept` (n flags): they, and the fill everywhere else. */
  compose(target, kept) {
    fit(target, this.width, this.height);
    const cut = this.cut.getContext("2d");
    cut.globalCompositeOperation = "copy";
    cut.drawImage(this.canvas, 0, 0);
    cut.globalCompositeOperation = "destination-in";
    cut.drawImage(this.#colour((region) => (kept[region] ? [0, 0, 0, 255] : null)), 0, 0);
    const context = target.getContext("2d");
    context.drawImage(this.fill, 0, 0);
    context.drawImage(this.cut, 0, 0);
  }

  /**
   * The photo with the regions in `kept`, as `show` says; also `heat` (n values 0 to 1), `focus` (a region) and
   * `outlines`, each [regions, colour].
   */
  paint(target, kept, { show, heat = null, focus = -1, outlines = [] }) {
    const width = Math.round(this.photo.naturalWidth * this.scale);
    const height = Math.round(this.photo.naturalHeight * this.scale);
    fit(target, width, height);
    const context = target.getContext("2d");
    const [left, top, right, bottom] = this.box;
    const seen = [left * width, top * height, (right - left) * width, (bottom - top) * height];
    context.clearRect(0, 0, width, height);
    context.globalAlpha = ExplainedImage.UNSEEN;
    context.drawImage(this.photo, 0, 0, width, height);
    context.globalAlpha = 1;
    if (!this.whole) {
      context.fillStyle = context.createPattern(hatching(Math.round(width / 64)), "repeat");
      context.fillRect(0, 0, width, height);
    }
    context.save();
    context.beginPath();
    context.rect(...seen);
    context.clip();
    context.clearRect(...seen);
    context.drawImage(this.photo, 0, 0, width, height);
    context.imageSmoothingEnabled = false;
    if (show.heat && heat) {
      context.drawImage(this.#colour((region) => [...rankColour(heat[region]), 165]), ...seen);
    }
    if (show.mask) {
      const dark = [0, 0, 0, Math.round(255 * ExplainedImage.DIMMED)];
      context.drawImage(this.#colour((region) => (kept[region] ? null : dark)), ...seen);
    }
    context.restore();
    if (show.outline) this.#outline(context, seen, (region) => kept[region], ExplainedImage.EVIDENCE);
    outlines.forEach(([regions, colour], i) => {
      // Those below are wider: where several share a border, all of their colours are seen.
      this.#outline(context, seen, (region) => regions.includes(region), colour, outlines.length - 1 - i);
    });
    if (focus >= 0) this.#outline(context, seen, (region) => region === focus, "#FFFFFF");
  }

  /** The region at a point of the photo, given as shares of its width and height; -1 where the model does not look. */
  regionAt(x, y) {
    const [left, top, right, bottom] = this.box;
    const column = Math.floor(((x - left) / (right - left)) * this.width);
    const row = Math.floor(((y - top) / (bottom - top)) * this.height);
    const inside = column >= 0 && column < this.width && row >= 0 && row < this.height;
    return inside ? this.labels[row * this.width + column] : -1;
  }

  /** Share of the grid that the regions in `kept` cover. */
  area(kept) {
    return this.areas.reduce((sum, area, region) => sum + (kept[region] ? area : 0), 0);
  }

  /** The grid with every region in its colour [r, g, b, alpha], or clear. */
  #colour(colourOf) {
    const palette = new Uint8ClampedArray(4 * this.n);
    for (let region = 0; region < this.n; region++) palette.set(colourOf(region) ?? [0, 0, 0, 0], 4 * region);
    const words = new Uint32Array(palette.buffer);
    const context = this.stencil.getContext("2d");
    const pixels = context.createImageData(this.width, this.height);
    const out = new Uint32Array(pixels.data.buffer);
    for (let i = 0; i < out.length; i++) out[i] = words[this.labels[i]];
    context.putImageData(pixels, 0, 0);
    return this.stencil;
  }

  /** Every border between a region that is in and one that is not, or the end of the grid. */
  #outline(context, [left, top, wide, high], isIn, colour, above = 0) {
    const { width, height, labels } = this;
    const inside = Uint8Array.from({ length: this.n }, (_, region) => (isIn(region) ? 1 : 0));
    const x = (column) => left + (column / width) * wide;
    const y = (row) => top + (row / height) * high;
    const at = (row, column) =>
      row < 0 || column < 0 || row >= height || column >= width ? 0 : inside[labels[row * width + column]];
    const path = new Path2D();
    for (let row = 0; row <= height; row++) {
      for (let column = 0; column <= width; column++) {
        const here = at(row, column);
        if (here !== at(row - 1, column)) {
          path.moveTo(x(column), y(row));
          path.lineTo(x(column + 1), y(row));
        }
        if (here !== at(row, column - 1)) {
          path.moveTo(x(column), y(row));
          path.lineTo(x(column), y(row + 1));
        }
      }
    }
    context.lineCap = "round";
    for (const [stroke, thick] of [["rgb(0 0 0 / 0.65)", 7], [colour, 3.5]]) {
      context.strokeStyle = stroke;
      context.lineWidth = thick + 4 * above;
      context.stroke(path);
    }
  }
};

function layer(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

/** Diagonal lines in grey, which are seen on light and dark pages: a tile of them. */
function hatching(side) {
  const tile = layer(side, side);
  const context = tile.getContext("2d");
  context.strokeStyle = "rgb(128 128 128 / 0.7)";
  context.lineWidth = side / 8;
  context.beginPath();
  for (const shift of [-side, 0, side]) {
    context.moveTo(shift - 1, side + 1);
    context.lineTo(shift + side + 1, -1);
  }
  context.stroke();
  return tile;
}

function fit(canvas, width, height) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
}

function rankColour(value) {
  const stops = whymask.ExplainedImage.RANKS;
  const place = Math.min(Math.max(value, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  return stops[below].map((channel, i) => Math.round(channel + (stops[below + 1][i] - channel) * (place - below)));
}
