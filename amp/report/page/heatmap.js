// A table of histograms: one row per tensor, one column per power of two.

const FLOOR = -64, CEILING = 40;  // exponents outside share the first or last column

/** Returns the sum of counts of a row by column, for columns from lo to hi after a shift. */
function columnsOf(row, lo, hi, shift) {
  const columns = new Array(hi - lo + 1).fill(0);
  row.counts.forEach((count, i) => {
    const e = Math.max(lo, Math.min(hi, Math.floor(row.lo + i + shift + 1e-9)));
    columns[e - lo] += count;
  });
  return columns;
}

/** Returns the range of exponents of rows after their shifts, at least that of `least`. */
function exponentRange(rows, shift, least) {
  let [lo, hi] = least;
  for (const row of rows) {
    if (row.counts.length === 0) continue;
    lo = Math.min(lo, Math.floor(row.lo + shift(row)));
    hi = Math.max(hi, Math.ceil(row.lo + row.counts.length - 1 + shift(row)));
  }
  return [Math.max(FLOOR, lo), Math.min(CEILING, hi)];
}

/** Returns a drawing.
 *  rows: {name, data (a histogram or null), shift, left: [share], right: [text]}
 *  columns: {lo, hi}; left and right: heads of the further columns, which hold shares as cells and
 *  texts; strips: [{name, zones: [[from, to, kind, text]]}] above; lines: [[exponent, text]];
 *  describe(row, range, count) returns the text for one cell. */
function heatmap(name, options) {
  const size = heatmapLayout(options);
  const svg = s('svg', {class: 'chart heatmap', viewBox: `0 0 ${size.width} ${size.height}`,
    width: size.width, height: size.height, role: 'img', 'aria-label': name, tabindex: 0});
  svg.append(...heatmapStrips(options, size), ...heatmapBands(options, size),
    ...heatmapAxis(options, size), ...options.rows.flatMap((row, i) => heatmapRow(row, i, options, size)),
    ...heatmapLines(options, size));
  addCellCursor(svg, options, size);
  return h('div', {class: 'scroll'}, svg);
}

function heatmapLayout({rows, columns, left, right, strips = [], width, xLabel}) {
  const names = widest([...rows.map((row) => row.name), ...strips.map((strip) => strip.name)]) + 10;
  const rights = right.map((head, i) => widest([head, ...rows.map((row) => row.right[i])]) + 14);
  const lefts = left.map((head) => Math.max(24, textWidth(head, 11) + 8));
  const spare = width - names - total(rights) - total(lefts) - 6;
  const count = columns.hi - columns.lo + 1;
  const cell = Math.max(7, Math.min(34, spare / count));
  const rowHeight = rows.length > 30 ? 16 : 20;
  const start = names + total(lefts);
  const top = 20 + strips.length * 18;
  const plotEnd = start + count * cell;
  const end = Math.max(plotEnd, start + textWidth(xLabel) + 4);
  const bottom = top + rows.length * rowHeight;
  return {names, lefts, rights, cell, rowHeight, start, top, plotEnd, end, bottom, count,
    width: end + total(rights) + 6, height: bottom + 40,
    px: (e) => start + (e - columns.lo) * cell};
}

/** Clips a zone to the columns; null if nothing remains. */
function clipped([from, to], {lo, hi}) {
  const a = Math.max(from, lo), b = Math.min(to, hi + 1);
  return a < b ? [a, b] : null;
}

function heatmapStrips({strips = [], columns}, size) {
  return strips.map((strip, i) => s('g', {},
    s('text', {x: size.start - 6, y: 14 + i * 18, 'text-anchor': 'end'}, strip.name),
    strip.zones.map((zone) => {
      const ends = clipped(zone, columns);
      if (!ends) return null;
      const [x, w] = [size.px(ends[0]), (ends[1] - ends[0]) * size.cell];
      const fits = [zone[3], zone[3].slice(0, 4) + '.', ''].find((text) => textWidth(text, 11) < w - 2);
      return s('g', {}, s('rect', {class: `zone ${zone[2]}`, x, y: 2 + i * 18, width: w, height: 15}),
        s('title', {}, `${strip.name}: ${zone[3]}`),
        s('text', {class: 'small', x: x + w / 2, y: 13 + i * 18, 'text-anchor': 'middle'}, fits));
    })));
}

/** The zones of the chosen format, behind the cells. */
function heatmapBands({bands = [], columns}, size) {
  return bands.map((zone) => {
    const ends = clipped(zone, columns);
    return ends && s('rect', {class: `band ${zone[2]}`, x: size.px(ends[0]), y: size.top,
      width: (ends[1] - ends[0]) * size.cell, height: size.bottom - size.top});
  }).filter(Boolean);
}

function heatmapAxis({columns, left, right, xLabel}, size) {
  const ticks = integerTicks(columns.lo, columns.hi, (size.plotEnd - size.start) / 36);
  const y = size.bottom;
  let x = size.names;
  const heads = left.map((head, i) => {
    x += size.lefts[i];
    return s('text', {class: 'small', x: x - size.lefts[i] / 2, y: size.top - 5, 'text-anchor': 'middle'},
      head);
  });
  x = size.end;
  for (const [i, head] of right.entries()) {
    x += size.rights[i];
    heads.push(s('text', {class: 'small', x, y: size.top - 5, 'text-anchor': 'end'}, head));
  }
  return [...heads,
    ...ticks.map((e) => s('g', {},
      s('line', {class: 'tick', x1: size.px(e), x2: size.px(e), y1: y, y2: y + 4}),
      s('text', {x: size.px(e), y: y + 17, 'text-anchor': 'middle'}, power2(e)))),
    s('line', {class: 'axis', x1: size.start, x2: size.plotEnd, y1: y, y2: y}),
    s('text', {class: 'axis-label', x: size.end, y: y + 34, 'text-anchor': 'end'}, xLabel)];
}

function heatmapLines({lines = []}, size) {
  return lines.map(([e, text]) => s('g', {},
    s('line', {class: 'limit', x1: size.px(e), x2: size.px(e), y1: size.top - 4, y2: size.bottom}),
    s('text', {class: 'small strong', x: size.px(e), y: size.top - 6, 'text-anchor': 'middle'}, text)));
}

/** How dark a share of elements is drawn: from 0.1 % on visible, logarithmic. */
function darkness(share) {
  return share > 0 ? Math.max(0.08, Math.min(1, 1 + Math.log10(share) / 3.2)) : 0;
}

function heatmapRow(row, i, {columns}, size) {
  const y = size.top + i * size.rowHeight;
  const cells = [s('text', {x: size.names - 6, y: y + size.rowHeight / 2 + 4, 'text-anchor': 'end'},
    row.name)];
  if (!row.data)
    return [...cells, s('text', {class: 'small faint', x: size.start + 4, y: y + size.rowHeight / 2 + 4},
      'not in this sample')];
  const box = (x, width, share, kind) => share > 0 && cells.push(s('rect', {class: `cell ${kind}`, x,
    y: y + 1, width, height: size.rowHeight - 2, 'fill-opacity': darkness(share).toFixed(2)}));
  let x = size.names;
  row.left.forEach((share, k) => {
    box(x + 2, size.lefts[k] - 4, share, k === 0 ? 'zero' : 'bad');
    x += size.lefts[k];
  });
  const counts = columnsOf(row.data, columns.lo, columns.hi, row.shift);
  counts.forEach((count, k) => box(size.px(columns.lo + k) + 0.5, size.cell - 1, shareOf(count, row.n), ''));
  x = size.end;
  row.right.forEach((text, k) => {
    x += size.rights[k];
    cells.push(s('text', {class: 'value', x, y: y + size.rowHeight / 2 + 4, 'text-anchor': 'end'}, text));
  });
  return cells;
}

/** Pointer and arrow keys choose a cell, whose text goes to the readout. */
function addCellCursor(svg, {rows, columns, describe, line}, size) {
  if (rows.length === 0) return;
  const mark = s('rect', {class: 'cell-cursor', width: size.cell, height: size.rowHeight,
    visibility: 'hidden'});
  let row = 0, e = columns.lo;
  const go = (newRow, newE) => {
    row = Math.max(0, Math.min(rows.length - 1, newRow));
    e = Math.max(columns.lo, Math.min(columns.hi, newE));
    for (const [key, value] of [['x', size.px(e)], ['y', size.top + row * size.rowHeight],
      ['visibility', 'visible']]) mark.setAttribute(key, value);
    const count = rows[row].data ?
      columnsOf(rows[row].data, columns.lo, columns.hi, rows[row].shift)[e - columns.lo] : 0;
    line.textContent = describe(rows[row], rangeText(e, columns), count);
  };
  svg.append(mark);
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const zoom = size.width / box.width;
    const x = (event.clientX - box.left) * zoom, y = (event.clientY - box.top) * zoom;
    if (y < size.top || y >= size.bottom) return;
    go(Math.floor((y - size.top) / size.rowHeight), columns.lo + Math.floor((x - size.start) / size.cell));
  });
  svg.addEventListener('keydown', (event) => {
    const move = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
    if (!move) return;
    event.preventDefault();
    go(row + move[0], e + move[1]);
  });
  svg.addEventListener('focus', () => go(row, e === columns.lo ? fullest(rows[row], columns) : e));
}

/** The magnitudes of a column in words. */
function rangeText(e, {lo, hi}) {
  if (e === lo) return `below ${power2(lo + 1)}`;
  return e === hi ? `from ${power2(hi)} on` : `from ${power2(e)} to ${power2(e + 1)}`;
}

/** The exponent of the column with most elements. */
function fullest(row, {lo, hi}) {
  if (!row.data) return lo;
  const counts = columnsOf(row.data, lo, hi, row.shift);
  return lo + counts.indexOf(Math.max(...counts));
}

/** Returns the zones of a format as [from, to, kind, text], exponents of magnitudes. */
function formatZones(format) {
  const {zero, normal, over} = zonesOf(format);
  return [[-Infinity, zero, 'zero', 'zero'], [zero, normal, 'subnormal', 'subnormal'],
    [normal, over, 'normal', 'normal'], [over, Infinity, 'overflow', 'overflow']];
}
