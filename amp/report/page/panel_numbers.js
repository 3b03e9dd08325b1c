// Panel 2: where the numbers live, by layer and power of two.

const KINDS = [['activation', 'activations'], ['activation_grad', 'activation gradients'],
  ['weight', 'weights'], ['weight_grad', 'weight gradients'], ['update', 'updates']];

/** What the user chose. k null: the loss scale of the run. */
const numbersState = {kind: 'weight_grad', step: 0, k: null, format: 'f16', strips: new Set(['f16', 'bf16'])};

function renderNumbers(body, {run, width}) {
  const kinds = KINDS.filter(([kind]) => run.samples.some((one) => hasKind(one, kind)));
  if (kinds.length === 0) {
    show(body, missing('This run has no histograms. They are taken in sampled steps; a report samples ' +
      'the first step and then every 20th unless the program says otherwise.'));
    return;
  }
  const state = numbersState;
  if (!kinds.some(([kind]) => kind === state.kind)) state.kind = kinds[0][0];
  const controls = h('div', {class: 'controls'}), drawing = h('div');
  const line = readout('Point at a cell, or focus the drawing and use the arrow keys.');
  const draw = () => drawNumbers(drawing, line, run, width);
  const arrange = () => {
    show(controls, numbersControls(run, kinds, draw, arrange));
    draw();
  };
  show(body, controls, drawing);
  arrange();
}

function hasKind(sample, kind) {
  return sample.rows.some((row) => row.kind === kind);
}

function samplesOf(run, kind) {
  return run.samples.filter((sample) => hasKind(sample, kind));
}

/** The controls: draw shows a changed value, arrange makes the controls anew. */
function numbersControls(run, kinds, draw, arrange) {
  const state = numbersState;
  const samples = samplesOf(run, state.kind);
  state.step = Math.min(state.step, samples.length - 1);
  const isGradient = GRADIENT_KINDS.includes(state.kind);
  const stepText = (i) => `${countText(samples[i].step)} (sample ${i + 1} of ${samples.length})`;
  const nodes = [
    choice('Numbers', kinds, state.kind, (kind) => {
      state.kind = kind;
      arrange();
      document.querySelector(`#panel-2 input[value="${kind}"]`)?.focus();
    }),
    choice('Shares in', BAND_FORMATS.map((name) => [name, name]), state.format, (name) => {
      state.format = name;
      state.strips.add(name);
      arrange();
      document.querySelector(`#panel-2 input[value="${name}"]`)?.focus();
    }),
    checks('Bands', BAND_FORMATS.map((name) => [name, name]), state.strips, draw)];
  const scale = isGradient ? scaleSlider(run, samples, draw) : null;
  const steps = slider('Step', {min: 0, max: samples.length - 1, value: state.step, text: stepText,
    changed: (i) => {
      state.step = i;
      if (state.k === null) scale?.reset();
      draw();
    }});
  return [...nodes, steps.node, scale?.node];
}

function scaleSlider(run, samples, draw) {
  const state = numbersState;
  const used = () => Math.round(usedScale(run, samples[state.step]));
  const made = slider('Loss scale', {min: 0, max: 32, value: between(state.k ?? used(), 0, 32),
    text: (k) => `${power2(k)} = ${countText(2 ** k)}${state.k === null ? ', as trained' : ''}`,
    changed: (k) => {
      state.k = k;
      made.set(k);
      draw();
    }});
  const reset = () => {
    state.k = null;
    made.set(between(used(), 0, 32));
  };
  return {node: h('div', {class: 'with-button'}, made.node,
    button('as trained', () => (reset(), draw()))), reset};
}

/** log2 of the loss scale of a sampled step. */
function usedScale(run, sample) {
  const step = run.steps.find((one) => one.step === sample.step);
  const inRows = sample.rows.find((row) => GRADIENT_KINDS.includes(row.kind) && row.scale !== 1);
  const scale = inRows?.scale ?? step?.scales[0] ?? 1;
  return scale > 0 && Number.isFinite(scale) ? Math.log2(scale) : 0;
}

function drawNumbers(drawing, line, run, width) {
  const {kind, step, format: name, strips} = numbersState;
  const format = formatNamed(name);
  const samples = samplesOf(run, kind);
  const sample = samples[step];
  const isGradient = GRADIENT_KINDS.includes(kind);
  const k = isGradient ? numbersState.k ?? usedScale(run, sample) : null;
  const present = sample.rows.filter((row) => row.kind === kind);
  const rows = rowNames(samples, kind).map((one) =>
    numbersRow(one, present.find((row) => row.name === one), format, k));
  const all = totalCounts(present, format, k);
  const options = {rows, columns: numbersRange(samples, kind, isGradient), width, line,
    left: ['0', 'inf/nan'], right: ['held in', `zero in ${name}`, `overflow`],
    xLabel: `magnitude${isGradient ? ' with the loss scale' : ''}, powers of two`,
    strips: BAND_FORMATS.filter((one) => strips.has(one)).map((one) =>
      ({name: one, zones: formatZones(formatNamed(one))})),
    bands: strips.has(name) ? formatZones(format) : [],
    describe: (row, range, count) => describeCell(row, range, count, k)};
  const title = KINDS.find(([one]) => one === kind)[1];
  show(drawing, numbersSentence(all, name, k, title), heatmap(`Magnitudes of ${title} at step ${sample.step}`,
    options), line, heatLegend(), isGradient ? scaleCurve(present, format, k, width) : null);
}

function rowNames(samples, kind) {
  return [...new Set(samples.flatMap((sample) =>
    sample.rows.filter((row) => row.kind === kind).map((row) => row.name)))];
}

/** The columns: fixed over steps and loss scales, so that moving a slider moves only the data. */
function numbersRange(samples, kind, isGradient) {
  const rows = samples.flatMap((sample) => sample.rows.filter((row) => row.kind === kind));
  const [lo] = exponentRange(rows, (row) => shiftOf(row, isGradient ? 0 : null), [-26, 17]);
  const [, hi] = exponentRange(rows, (row) => shiftOf(row, isGradient ? 20 : null), [-26, 17]);
  return {lo, hi: Math.min(hi, 32)};
}

function numbersRow(name, row, format, k) {
  if (!row) return {name, data: null, shift: 0, left: [0, 0], right: ['', '', ''], n: 0};
  const shift = shiftOf(row, k);
  const counts = zoneCounts(row, format, shift);
  return {name, data: row, shift, n: row.n, left: [shareOf(row.zero, row.n),
    shareOf(row.inf + row.nan, row.n)],
  right: [row.dtype, percentText(shareOf(counts.flushed, counts.nonzero)),
    percentText(shareOf(counts.overflow, counts.nonzero))]};
}

function describeCell(row, range, count, k) {
  if (!row.data) return `${row.name}: not in this sample`;
  const recorded = k !== null && row.shift !== 0 ?
    ` (recorded with the loss scale ${numberText(row.data.scale)})` : '';
  const {n, zero, inf, nan, max} = row.data;
  return `${row.name}: ${countText(count)} of ${countText(n)} elements (${percentText(shareOf(count, n))}) ` +
    `${range}${recorded}. Zero: ${countText(zero)}, inf: ${countText(inf)}, nan: ${countText(nan)}; ` +
    `largest magnitude ${numberText(max * 2 ** row.shift)}.`;
}

function numbersSentence(all, name, k, title) {
  const at = k === null ? '' : ` at loss scale ${Number.isInteger(k) ? power2(k) : numberText(2 ** k)}`;
  return h('p', {class: 'summary', 'aria-live': 'polite'}, `In ${name}${at}, of all non-zero ${title}: `,
    h('strong', {}, percentText(shareOf(all.flushed, all.nonzero))), ' become zero, ',
    h('strong', {}, percentText(shareOf(all.subnormal, all.nonzero))), ' are subnormal, ',
    h('strong', {}, percentText(shareOf(all.overflow, all.nonzero))), ' overflow.');
}

function heatLegend() {
  return legend([['cell-key', 'share of the tensor’s elements, stronger is more (0.1 % to 100 %)'],
    ['zero', 'rounds to zero'], ['subnormal', 'subnormal: fewer digits'], ['normal', 'normal'],
    ['overflow', 'overflows'], ['bad', 'inf or nan']]);
}

/** A drawing of the shares flushed and overflowed over all loss scales. */
function scaleCurve(rows, format, k, width) {
  const ks = Array.from({length: 33}, (_, i) => i);
  const totals = ks.map((one) => totalCounts(rows, format, one));
  const flushed = totals.map((one, i) => [i, 100 * shareOf(one.flushed, one.nonzero)]);
  const over = totals.map((one, i) => [i, 100 * shareOf(one.overflow, one.nonzero)]);
  const most = Math.max(1, ...flushed.map(([, y]) => y), ...over.map(([, y]) => y));
  const area = frame(`Shares in ${format.name} over the loss scale`, {width: Math.min(width, 720), height: 190,
    x: {min: 0, max: 32, label: 'loss scale', ticks: [0, 4, 8, 12, 16, 20, 24, 28, 32].map((e) =>
      [e, power2(e)])},
    y: linearAxis(0, most, `share of non-zero elements in ${format.name}, %`)});
  area.layer.append(s('path', {class: 'line flushed', d: path(flushed, area.px, area.py)}),
    s('path', {class: 'line overflowed', d: path(over, area.px, area.py)}));
  if (k >= 0 && k <= 32) area.layer.append(s('line', {class: 'limit', x1: area.px(k), x2: area.px(k),
    y1: area.top, y2: area.bottom}));
  const line = readout('');
  addCursor(area, ks, (i) => `Loss scale ${power2(i)}: ${percentText(flushed[i][1] / 100)} become zero, ` +
    `${percentText(over[i][1] / 100)} overflow.`, line);
  return h('figure', {}, h('figcaption', {}, 'All layers together, for each loss scale'), area.svg,
    legend([['line-key flushed', 'become zero'], ['line-key overflowed', 'overflow']]), line);
}
