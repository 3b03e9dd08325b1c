// Axes, lines and a cursor for drawings over steps.

const TICK_SIZE = 12;  // px, the size of the text at axes

/** Returns [least, largest] of numbers; there must be one. */
function rangeOf(values) {
  return values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
}

function percentTicks() {
  return [0, 25, 50, 75, 100].map((v) => [v, String(v)]);
}

/** Returns about n round numbers between min and max. */
function roundTicks(min, max, n) {
  const raw = (max - min) / n || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const width = [1, 2, 5, 10].find((one) => one * power >= raw) * power;
  const ticks = [];
  for (let i = Math.ceil(min / width - 1e-9); i * width <= max + width * 1e-9; ++i)
    ticks.push(Number((i * width).toPrecision(12)));
  return ticks;
}

/** Returns at most n integers between min and max, at equal distances from zero. */
function integerTicks(min, max, n) {
  const width = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50].find((one) => (max - min) / one <= n) ?? 64;
  const ticks = [];
  for (let i = Math.ceil(min / width); i * width <= max; ++i) ticks.push(i * width);
  return ticks;
}

/** Returns an axis: its range, its ticks [[value, text]] and its label with the unit. */
function stepAxis(first, last, width) {
  const max = last > first ? last : first + 1;
  const ticks = integerSteps(first, max, Math.max(2, width / 90));
  return {min: first, max, label: 'step', ticks: ticks.map((step) => [step, countText(step)])};
}

function integerSteps(first, last, n) {
  return roundTicks(first, last, n).filter(Number.isInteger);
}

function linearAxis(min, max, label, text = numberText, n = 5) {
  const pad = max > min ? 0 : Math.abs(max) / 2 || 1;
  const low = min - pad, high = max + pad;
  return {min: low, max: high, label, ticks: roundTicks(low, high, n).map((v) => [v, text(v)])};
}

/** Returns a frame: svg, the layer to draw in, px(x) and py(y). The margins fit the labels. */
function frame(name, {width, height, x, y, head = 0}) {
  const left = widest(y.ticks.map(([, text]) => text), TICK_SIZE) + 12;
  const lastTick = x.ticks.at(-1)?.[1] ?? '';
  const right = Math.max(14, textWidth(lastTick, TICK_SIZE) / 2 + 4);
  const top = 26 + head, bottom = 40;
  const across = width - left - right, down = height - top - bottom;
  const px = (v) => left + (v - x.min) / (x.max - x.min) * across;
  const py = (v) => top + (y.max - v) / (y.max - y.min) * down;
  const layer = s('g');
  const svg = s('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, width, height,
    role: 'img', 'aria-label': name},
  s('text', {class: 'axis-label', x: 2, y: 14}, y.label),
  s('text', {class: 'axis-label', x: left + across, y: height - 4, 'text-anchor': 'end'}, x.label),
  y.ticks.map(([value, text]) => [
    s('line', {class: 'grid', x1: left, x2: left + across, y1: py(value), y2: py(value)}),
    s('text', {x: left - 6, y: py(value) + 4, 'text-anchor': 'end'}, text)]),
  x.ticks.map(([value, text]) => [
    s('line', {class: 'tick', x1: px(value), x2: px(value), y1: top + down, y2: top + down + 4}),
    s('text', {x: px(value), y: top + down + 17, 'text-anchor': 'middle'}, text)]),
  s('line', {class: 'axis', x1: left, x2: left + across, y1: top + down, y2: top + down}),
  layer);
  return {svg, layer, px, py, left, right: left + across, top, bottom: top + down, x, y};
}

/** Returns the path through the points [[x, y]]; it is broken where a value is not finite. */
function path(points, px, py) {
  let text = '', pen = 'M';
  for (const [x, y] of points) {
    if (Number.isFinite(y)) text += `${pen}${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
    pen = Number.isFinite(y) ? 'L' : 'M';
  }
  // a point between two gaps is a dot, drawn by the round ends of an empty line
  return text.replace(/M([^ML]+)(?=M|$)/g, 'M$1h0');
}

/** Returns the path of a value that keeps until the next step. */
function stairs(points, px, py) {
  const corners = points.flatMap(([x, y], i) =>
    i > 0 ? [[x, points[i - 1][1]], [x, y]] : [[x, y]]);
  return path(corners, px, py);
}

/** Returns a drawing with a legend, a cursor over the positions xs and the cursor's readout. */
function figureOf(caption, area, xs, describe, entries = []) {
  const line = h('p', {class: 'readout', 'aria-live': 'polite'},
    'Point at the drawing, or focus it and use the arrow keys.');
  addCursor(area, xs, describe, line);
  return h('figure', {}, caption ? h('figcaption', {}, caption) : null, area.svg,
    entries.length > 0 ? legend(entries) : null, line);
}

/** Adds a cursor to a drawing: pointer and arrow keys choose one of the positions `xs` (ascending,
 *  in units of the axis); describe(i) is written to the readout. */
function addCursor(area, xs, describe, line) {
  if (xs.length === 0) return;
  const mark = s('line', {class: 'cursor', y1: area.top, y2: area.bottom, visibility: 'hidden'});
  let at = -1;
  const go = (i) => {
    at = Math.max(0, Math.min(xs.length - 1, i));
    const x = area.px(xs[at]);
    setAll(mark, {x1: x, x2: x, visibility: 'visible'});
    line.textContent = describe(at);
  };
  const pointed = (event) => {
    const box = area.svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * area.svg.viewBox.baseVal.width / box.width;
    go(nearest(xs, area.x.min + (x - area.left) / (area.right - area.left) *
      (area.x.max - area.x.min)));
  };
  const pressed = (event) => {
    const far = Math.max(1, Math.round(xs.length / 10));
    const move = {ArrowRight: 1, ArrowLeft: -1, PageDown: far, PageUp: -far, Home: -xs.length,
      End: xs.length}[event.key];
    if (move === undefined) return;
    event.preventDefault();
    go(at + move);
  };
  area.svg.append(mark);
  area.svg.setAttribute('tabindex', 0);
  area.svg.dataset.positions = xs.length;
  area.svg.addEventListener('pointermove', pointed);
  area.svg.addEventListener('keydown', pressed);
  area.svg.addEventListener('focus', () => at < 0 && go(0));
}

/** Returns the index of the number in ascending xs that is nearest to x. */
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}
