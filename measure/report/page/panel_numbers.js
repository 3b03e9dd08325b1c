// Panel 3: where the numbers live, by layer and power of two.

const KINDS = [['activation', 'activations'], ['activation_grad', 'activation gradients'],
  ['weight', 'weights'], ['weight_grad', 'weight gradients'], ['update', 'updates']];
const MOST_SCALE = 32;  // the loss scale's slider ends at 2^32

/** What the user chose. k null: the loss scale of the run. */
const numbersState = {kind: 'weight_grad', step: 0, k: null, format: 'f16',
  strips: new Set(['f16', 'bf16'])};

function renderNumbers(body, {run, width}) {
  const state = numbersState;
  const kinds = KINDS.filter(([kind]) => samplesOf(run, kind).length > 0);
  if (kinds.length === 0) {
    show(body, missing('This run has no histograms. They are taken in sampled steps: the first ' +
      'and then every 20th, unless the program says otherwise.'));
    return;
  }
  if (!kinds.some(([kind]) => kind === state.kind)) state.kind = kinds[0][0];
  const controls = h('div', {class: 'controls'}), drawing = h('div');
  const draw = () => drawNumbers(drawing, run, width);
  const arrange = (focus) => {
    show(controls, numbersControls(run, kinds, draw, arrange));
    draw();
    if (focus) controls.querySelector(`input[value="${focus}"]`).focus();
  };
  show(body, controls, drawing);
  arrange();
}

function samplesOf(run, kind) {
  return run.samples.filter((sample) => sample.rows.some((row) => row.kind === kind));
}

/** The controls: draw shows a changed value, arrange makes the controls anew. */
function numbersControls(run, kinds, draw, arrange) {
  const state = numbersState;
  const samples = samplesOf(run, state.kind);
  state.step = Math.min(state.step, samples.length - 1);
  const names = BAND_FORMATS.map((name) => [name, name]);
  const scale = GRADIENT_KINDS.includes(state.kind) ? scaleSlider(run, samples, draw) : null;
  const steps = stepSlider(samples, state.step, (i) => {
    state.step = i;
    if (state.k === null) scale?.reset();
    draw();
  });
  return [choice('Numbers', kinds, state.kind, (kind) => (state.kind = kind, arrange(kind))),
    choice('Shares in', names, state.format, (name) => {
      state.format = name;
      state.strips.add(name);
      arrange(name);
    }), checks('Bands', names, state.strips, draw), steps.node, scale?.node];
}

function scaleSlider(run, samples, draw) {
  const state = numbersState;
  const used = () => between(Math.round(usedScale(run, samples[state.step])), 0, MOST_SCALE);
  const made = slider('Loss scale', {min: 0, max: MOST_SCALE, value: state.k ?? used(),
    text: (k) => `${power2(k)} = ${countText(2 ** k)}${state.k === null ? ', as trained' : ''}`,
    changed: (k) => {
      state.k = k;
      made.set(k);
      draw();
    }});
  const reset = () => {
    state.k = null;
    made.set(used());
  };
  return {reset, node: h('div', {class: 'with-button'}, made.node,
    button('as trained', () => (reset(), draw())))};
}

/** log2 of the loss scale of a sampled step. */
function usedScale(run, sample) {
  const step = run.steps.find((one) => one.step === sample.step);
  const row = sample.rows.find((one) => GRADIENT_KINDS.includes(one.kind) && one.scale !== 1);
  const scale = row?.scale ?? step?.scales[0] ?? 1;
  return scale > 0 && Number.isFinite(scale) ? Math.log2(scale) : 0;
}

function drawNumbers(drawing, run, width) {
  const {kind, step, format: name, strips} = numbersState;
  const format = formatNamed(name), samples = samplesOf(run, kind), sample = samples[step];
  const isGradient = GRADIENT_KINDS.includes(kind);
  const k = isGradient ? numbersState.k ?? usedScale(run, sample) : null;
  const present = sample.rows.filter((row) => row.kind === kind);
  const title = KINDS.find(([one]) => one === kind)[1];
  const zonesNamed = (one) => ({name: one, zones: formatZones(formatNamed(one))});
  show(drawing, numbersSentence(totalCounts(present, format, k), name, k, title),
    heatmap(`Magnitudes of ${title} at step ${sample.step}`, {
      rows: rowNames(samples, kind).map((one) =>
        numbersRow(one, present.find((row) => row.name === one), format, k)),
      columns: numbersRange(samples, kind, isGradient), width,
      left: ['0', 'inf/nan'], right: ['held in', `zero in ${name}`, 'overflow'],
      xLabel: `magnitude${isGradient ? ' with the loss scale' : ''}, powers of two`,
      strips: BAND_FORMATS.filter((one) => strips.has(one)).map(zonesNamed),
      bands: strips.has(name) ? formatZones(format) : [], describe: describeNumbers}),
    legend([['cell-key', 'share of the tensor’s elements, stronger is more (0.1 % to 100 %)'],
      ['zero', 'rounds to zero'], ['subnormal', 'subnormal: fewer digits'], ['normal', 'normal'],
      ['overflow', 'overflows'], ['bad', 'inf or nan']]),
    isGradient ? scaleCurve(present, format, k, width) : null);
}

function rowNames(samples, kind) {
  return [...new Set(samples.flatMap((sample) =>
    sample.rows.filter((row) => row.kind === kind).map((row) => row.name)))];
}

/** The columns: the same for all steps and loss scales, so that a slider moves only the data. */
function numbersRange(samples, kind, isGradient) {
  const rows = samples.flatMap((sample) => sample.rows.filter((row) => row.kind === kind));
  const end = (k) => exponentRange(rows, (row) => shiftOf(row, isGradient ? k : null), [-26, 17]);
  return {lo: end(0)[0], hi: Math.min(end(20)[1], 32)};
}

function numbersRow(name, row, format, k) {
  if (!row) return {name, data: null, shift: 0, left: [0, 0], right: ['', '', ''], n: 0};
  const shift = shiftOf(row, k), counts = zoneCounts(row, format, shift);
  return {name, data: row, shift, n: row.n,
    left: [shareOf(row.zero, row.n), shareOf(row.inf + row.nan, row.n)],
    right: [row.dtype, percentText(shareOf(counts.flushed, counts.nonzero)),
      percentText(shareOf(counts.overflow, counts.nonzero))]};
}

function describeNumbers(row, range, count) {
  const {n, zero, inf, nan, max, scale} = row.data;
  const recorded = row.shift === 0 ? '' : ` (recorded with the loss scale ${numberText(scale)})`;
  return `${countText(count)} of ${countText(n)} elements (${percentText(shareOf(count, n))}) ` +
    `${range}${recorded}. Zero: ${countText(zero)}, inf: ${countText(inf)}, nan: ` +
    `${countText(nan)}; largest magnitude ${numberText(max * 2 ** row.shift)}.`;
}

function numbersSentence(all, name, k, title) {
  const at = k === null ? '' :
    ` at loss scale ${Number.isInteger(k) ? power2(k) : numberText(2 ** k)}`;
  const share = (part) => h('strong', {}, percentText(shareOf(part, all.nonzero)));
  return h('p', {class: 'summary', 'aria-live': 'polite'},
    `In ${name}${at}, of all non-zero ${title}: `, share(all.flushed), ' become zero, ',
    share(all.subnormal), ' are subnormal, ', share(all.overflow), ' overflow.');
}

/** A drawing of the shares flushed and overflowed over all loss scales. */
function scaleCurve(rows, format, k, width) {
  const ks = Array.from({length: MOST_SCALE + 1}, (_, i) => i);
  const totals = ks.map((one) => totalCounts(rows, format, one));
  const curve = (key) => totals.map((one, i) => [i, 100 * shareOf(one[key], one.nonzero)]);
  const flushed = curve('flushed'), over = curve('overflow');
  const most = rangeOf([1, ...flushed.map(([, y]) => y), ...over.map(([, y]) => y)])[1];
  const area = frame(`Shares in ${format.name} over the loss scale`, {height: 190,
    width: Math.min(width, 720),
    x: {min: 0, max: MOST_SCALE, label: 'loss scale',
      ticks: ks.filter((e) => e % 4 === 0).map((e) => [e, power2(e)])},
    y: linearAxis(0, most, `share of non-zero elements in ${format.name}, %`)});
  area.layer.append(s('path', {class: 'line flushed', d: path(flushed, area.px, area.py)}),
    s('path', {class: 'line overflowed', d: path(over, area.px, area.py)}));
  if (k >= 0 && k <= MOST_SCALE) area.layer.append(s('line', {class: 'limit', x1: area.px(k),
    x2: area.px(k), y1: area.top, y2: area.bottom}));
  return figureOf('All layers together, for each loss scale', area, ks, (i) =>
    `Loss scale ${power2(i)}: ${percentText(flushed[i][1] / 100)} become zero, ` +
    `${percentText(over[i][1] / 100)} overflow.`,
  [['line-key flushed', 'become zero'], ['line-key overflowed', 'overflow']]);
}
