// Panel 5: updates beside their weights.

/** f16 has 10 fraction bits: an update below 2^-11 of a weight is less than half its spacing. */
const LINES = [['f16', -11], ['bf16', -8]];
const EVERY_PARAMETER = 'all parameters';

const ratioState = {step: 0, parameter: EVERY_PARAMETER};

function renderRatio(body, {run, width}) {
  const state = ratioState;
  const samples = run.samples.filter((sample) => updatesOf(sample).length > 0);
  if (samples.length === 0) {
    show(body, missing('This run has no updates in its samples: no optimizer step was sampled.'));
    return;
  }
  state.step = Math.min(state.step, samples.length - 1);
  const names = rowNames(samples, 'update');
  if (!names.includes(state.parameter)) state.parameter = EVERY_PARAMETER;
  const heat = h('div'), curve = h('div');
  const draw = () => drawRatios(heat, samples, names, width);
  const drawCurve = () => show(curve, ratioCurve(samples, width));
  const steps = stepSlider(samples, state.step, (i) => (state.step = i, draw()));
  const which = select('Shares over the steps of', [EVERY_PARAMETER, ...names].map((name) =>
    [name, name]), state.parameter, (name) => (state.parameter = name, drawCurve()));
  show(body, h('div', {class: 'controls'}, steps.node), heat, h('div', {class: 'controls'}, which),
    curve);
  draw();
  drawCurve();
}

function updatesOf(sample) {
  return sample.rows.filter((row) => row.kind === 'update' && row.ratio);
}

function drawRatios(heat, samples, names, width) {
  const {step} = samples[ratioState.step], updates = updatesOf(samples[ratioState.step]);
  const rows = names.map((name) => ratioRow(name, updates.find((row) => row.name === name)));
  const ratios = samples.flatMap((one) => updatesOf(one).map((row) => row.ratio));
  const [lo, hi] = exponentRange(ratios, () => 0, [-14, -3]);
  show(heat, ratioSentence(updates, step), heatmap(`Update divided by weight at step ${step}`, {
    rows, width, columns: {lo: Math.max(lo, -40), hi: Math.min(hi, 12)}, left: ['0'],
    right: ['held in', 'below 2⁻¹¹', 'below 2⁻⁸'],
    xLabel: '|update| / |weight| of each element, powers of two',
    strips: [{name: '', zones: [[-Infinity, -11, 'zero', 'lost in f16 and bf16'],
      [-11, -8, 'subnormal', 'bf16 only'], [-8, Infinity, 'normal', 'kept']]}],
    lines: [-11, -8], describe: describeRatio}));
}

function ratioRow(name, row) {
  if (!row) return {name, data: null, shift: 0, left: [0], right: ['', '', ''], n: 0};
  const n = total(row.ratio.counts) + row.ratio.zero;
  return {name, data: row.ratio, shift: 0, n, left: [shareOf(row.ratio.zero, n)],
    right: [row.dtype, ...LINES.map(([, e]) => percentText(ratioShare(row.ratio, e)))]};
}

function describeRatio(row, range, count) {
  const share = percentText(shareOf(count, row.n));
  return `${countText(count)} of ${countText(row.n)} elements (${share}) have |update| / ` +
    `|weight| ${range}. Update exactly zero: ${countText(row.data.zero)}.`;
}

function ratioSentence(rows, step) {
  const sum = addRatios(rows.map((row) => row.ratio));
  const [half, brain] = LINES.map(([, e]) => percentText(ratioShare(sum, e)));
  return h('p', {class: 'summary', 'aria-live': 'polite'}, `At step ${countText(step)}, `,
    h('strong', {}, half), ' of the non-zero updates are below 2⁻¹¹ of their weight (less than ' +
    'half the spacing of f16 beside a weight of 1), ', h('strong', {}, brain), ' below 2⁻⁸ ' +
    '(bf16). Added to a 16-bit weight they would be lost; f32 masters keep them.');
}

/** The shares below both lines over the sampled steps. */
function ratioCurve(samples, width) {
  const name = ratioState.parameter;
  const points = samples.map((sample) => {
    const rows = updatesOf(sample).filter((row) =>
      name === EVERY_PARAMETER || row.name === name);
    const sum = addRatios(rows.map((row) => row.ratio));
    return {step: sample.step,
      shares: LINES.map(([, e]) => rows.length > 0 ? 100 * ratioShare(sum, e) : NaN)};
  });
  const area = frame(`Share of lost updates of ${name} over the steps`, {width, height: 220,
    x: stepAxis(points[0].step, points.at(-1).step, width), y: {min: 0, max: 100,
      label: 'share of non-zero updates below the line, %', ticks: percentTicks()}});
  LINES.forEach(([format], i) => {
    const line = points.map((one) => [one.step, one.shares[i]]);
    area.layer.append(s('path', {class: `line dtype-${format}`, d: path(line, area.px, area.py)}),
      ...line.filter(([, y]) => Number.isFinite(y)).map(([x, y]) =>
        s('circle', {class: `dot dtype-${format}`, cx: area.px(x), cy: area.py(y), r: 2.5})));
  });
  return figureOf('', area, points.map((one) => one.step), (i) => {
    const [half, brain] = points[i].shares.map((share) => percentText(share / 100));
    return `Step ${countText(points[i].step)}, ${name}: ${half} below 2⁻¹¹, ${brain} below 2⁻⁸.`;
  }, [['line-key dtype-f16', 'below 2⁻¹¹: lost in f16'],
    ['line-key dtype-bf16', 'below 2⁻⁸: lost in bf16']]);
}
