// A drawing of histograms: one row for each tensor, one column for each power of two.

const FLOOR = -64, CEILING = 40;  // exponents outside share the first or last column

/** Returns the counts of a row by column after its shift. */
function columnsOf(row, {lo, hi}) {
  const columns = new Array(hi - lo + 1).fill(0);
  row.data.counts.forEach((count, i) => {
    columns[between(Math.floor(row.data.lo + i + row.shift + 1e-9), lo, hi) - lo] += count;
  });
  return columns;
}

/** Returns the range of exponents of histograms after their shifts, at least that of `least`. */
function exponentRange(rows, shift, least) {
  let [lo, hi] = least;
  for (const row of rows) {
    if (row.counts.length === 0) continue;
    lo = Math.min(lo, Math.floor(row.lo + shift(row)));
    hi = Math.max(hi, Math.ceil(row.lo + row.counts.length - 1 + shift(row)));
  }
  return [Math.max(FLOOR, lo), Math.min(CEILING, hi)];
}

/** Returns a drawing and its readout.
 *  rows: {name, data (a histogram or null), shift, n, left: [share], right: [text]}
 *  columns: {lo, hi}; left and right: heads of the further columns, which hold shares as cells and
 *  texts; strips: [{name, zones: [[from, to, kind, text]]}] above; bands: zones behind the cells;
 *  lines: [exponent]; describe(row, range, count) returns the text for one cell. */
function heatmap(name, options) {
  const size = heatmapSize(options), {width, height} = size;
  const svg = s('svg', {class: 'chart heatmap', viewBox: `0 0 ${width} ${height}`, width, height,
    role: 'img', 'aria-label': name, tabindex: 0}, heatmapStrips(options, size),
  heatmapBands(options, size), heatmapAxis(options, size),
  options.rows.map((row, i) => heatmapRow(row, i, options, size)), heatmapLines(options, size));
  const line = h('p', {class: 'readout', 'aria-live': 'polite'},
    'Point at a cell, or focus the drawing and use the arrow keys.');
  addCellCursor(svg, line, options, size);
  return [h('div', {class: 'scroll'}, svg), line];
}

function heatmapSize({rows, columns, left, right, strips = [], width, xLabel}) {
  const names = widest([...rows, ...strips].map((one) => one.name)) + 10;
  const rights = right.map((head, i) => widest([head, ...rows.map((row) => row.right[i])]) + 14);
  const lefts = left.map((head) => Math.max(24, textWidth(head, 11) + 8));
  const start = names + total(lefts);
  const cell = between((width - start - total(rights) - 6) / (columns.hi - columns.lo + 1), 7, 34);
  const rowHeight = rows.length > 30 ? 16 : 20, top = 20 + strips.length * 18;
  const plotEnd = start + (columns.hi - columns.lo + 1) * cell;
  const end = Math.max(plotEnd, start + textWidth(xLabel) + 4);
  const bottom = top + rows.length * rowHeight;
  return {names, lefts, rights, cell, rowHeight, start, top, plotEnd, end, bottom,
    width: end + total(rights) + 6, height: bottom + 40,
    px: (e) => start + (e - columns.lo) * cell};
}

/** Returns the [x, width] of a zone inside the columns, or null. */
function zoneSpan([from, to], {lo, hi}, size) {
  const a = Math.max(from, lo), b = Math.min(to, hi + 1);
  return a < b ? [size.px(a), (b - a) * size.cell] : null;
}

function heatmapStrips({strips = [], columns}, size) {
  return strips.map((strip, i) => s('g', {},
    s('text', {x: size.start - 6, y: 14 + i * 18, 'text-anchor': 'end'}, strip.name),
    strip.zones.map((zone) => {
      const span = zoneSpan(zone, columns, size);
      if (!span) return null;
      const [x, width] = span, text = zone[3];
      const fits = [text, `${text.slice(0, 4)}.`, ''].find((one) => textWidth(one, 11) < width - 2);
      return s('g', {}, s('title', {}, `${strip.name}: ${text}`),
        s('rect', {class: `zone ${zone[2]}`, x, y: 2 + i * 18, width, height: 15}),
        s('text', {class: 'small', x: x + width / 2, y: 13 + i * 18,
          'text-anchor': 'middle'}, fits));
    })));
}

/** The zones of the chosen format, behind the cells. */
function heatmapBands({bands = [], columns}, size) {
  return bands.map((zone) => {
    const span = zoneSpan(zone, columns, size);
    return span && s('rect', {class: `band ${zone[2]}`, x: span[0], y: size.top, width: span[1],
      height: size.bottom - size.top});
  });
}

function heatmapAxis({columns, left, right, xLabel}, size) {
  const y = size.bottom;
  const ticks = integerTicks(columns.lo, columns.hi, (size.plotEnd - size.start) / 36);
  const head = (text, x, anchor) =>
    s('text', {class: 'small', x, y: size.top - 5, 'text-anchor': anchor}, text);
  return [left.map((text, i) => head(text, leftEdge(size, i) + size.lefts[i] / 2, 'middle')),
    right.map((text, i) => head(text, rightEdge(size, i), 'end')),
    ticks.map((e) => [
      s('line', {class: 'tick', x1: size.px(e), x2: size.px(e), y1: y, y2: y + 4}),
      s('text', {x: size.px(e), y: y + 17, 'text-anchor': 'middle'}, power2(e))]),
    s('line', {class: 'axis', x1: size.start, x2: size.plotEnd, y1: y, y2: y}),
    s('text', {class: 'axis-label', x: size.end, y: y + 34, 'text-anchor': 'end'}, xLabel)];
}

function leftEdge(size, i) {
  return size.names + total(size.lefts.slice(0, i));
}

function rightEdge(size, i) {
  return size.end + total(size.rights.slice(0, i + 1));
}

function heatmapLines({lines = []}, size) {
  return lines.map((e) => s('line', {class: 'limit', x1: size.px(e), x2: size.px(e),
    y1: size.top - 4, y2: size.bottom}));
}

/** How strongly a share of elements is drawn: from 0.1 % on visible, logarithmic. */
function strength(share) {
  return between(1 + Math.log10(share) / 3.2, 0.08, 1).toFixed(2);
}

function heatmapRow(row, i, {columns}, size) {
  const y = size.top + i * size.rowHeight, base = y + size.rowHeight / 2 + 4;
  const name = s('text', {x: size.names - 6, y: base, 'text-anchor': 'end'}, row.name);
  if (!row.data)
    return [name, s('text', {class: 'small', x: size.start + 4, y: base}, 'not in this sample')];
  const box = (x, width, share, kind) => share > 0 ? s('rect', {class: `cell ${kind}`, x, y: y + 1,
    width, height: size.rowHeight - 2, 'fill-opacity': strength(share)}) : null;
  return [name,
    row.left.map((share, k) => box(leftEdge(size, k) + 2, size.lefts[k] - 4, share,
      k === 0 ? 'zero' : 'bad')),
    columnsOf(row, columns).map((count, k) => box(size.px(columns.lo + k) + 0.5, size.cell - 1,
      shareOf(count, row.n), '')),
    row.right.map((text, k) => s('text', {class: 'value', x: rightEdge(size, k), y: base,
      'text-anchor': 'end'}, text))];
}

/** Pointer and arrow keys choose a cell, whose text goes to the readout. */
function addCellCursor(svg, line, {rows, columns, describe}, size) {
  if (rows.length === 0) return;
  const mark = s('rect', {class: 'cell-cursor', width: size.cell, height: size.rowHeight,
    visibility: 'hidden'});
  let row = 0, e = null;
  const go = (newRow, newE) => {
    row = between(newRow, 0, rows.length - 1);
    e = between(newE, columns.lo, columns.hi);
    setAll(mark, {x: size.px(e), y: size.top + row * size.rowHeight, visibility: 'visible'});
    line.textContent = `${rows[row].name}: ` + (rows[row].data ? describe(rows[row],
      rangeText(e, columns), columnsOf(rows[row], columns)[e - columns.lo]) : 'not in this sample');
  };
  svg.append(mark);
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect(), zoom = size.width / box.width;
    const x = (event.clientX - box.left) * zoom, y = (event.clientY - box.top) * zoom;
    if (y >= size.top && y < size.bottom) go(Math.floor((y - size.top) / size.rowHeight),
      columns.lo + Math.floor((x - size.start) / size.cell));
  });
  svg.addEventListener('keydown', (event) => {
    const move = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0],
      ArrowUp: [-1, 0]}[event.key];
    if (!move) return;
    event.preventDefault();
    go(row + move[0], e + move[1]);
  });
  svg.addEventListener('focus', () => go(row, e ?? fullest(rows[row], columns)));
}

/** The magnitudes of a column in words. */
function rangeText(e, {lo, hi}) {
  if (e === lo) return `below ${power2(lo + 1)}`;
  return e === hi ? `from ${power2(hi)} on` : `from ${power2(e)} to ${power2(e + 1)}`;
}

/** The exponent of the column with most elements. */
function fullest(row, columns) {
  if (!row.data) return columns.lo;
  const counts = columnsOf(row, columns);
  return columns.lo + counts.indexOf(Math.max(...counts));
}

/** Returns the zones of a format as [from, to, kind, text], exponents of magnitudes. */
function formatZones(format) {
  const {zero, normal, over} = zonesOf(format);
  return [[-Infinity, zero, 'zero', 'zero'], [zero, normal, 'subnormal', 'subnormal'],
    [normal, over, 'normal', 'normal'], [over, Infinity, 'overflow', 'overflow']];
}
