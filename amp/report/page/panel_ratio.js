// Panel 4: updates beside their weights.

/** A weight of f16 has 10 fraction bits: an update below 2^-11 of it is less than half a unit. */
const LINES = [['f16', -11], ['bf16', -8]];
const EVERY_PARAMETER = 'all parameters';

const ratioState = {step: 0, parameter: EVERY_PARAMETER};

function renderRatio(body, {run, width}) {
  const samples = run.samples.filter((sample) => updatesOf(sample).length > 0);
  if (samples.length === 0) {
    show(body, missing('This run has no updates in its samples: no optimizer step was sampled.'));
    return;
  }
  ratioState.step = Math.min(ratioState.step, samples.length - 1);
  const names = [...new Set(samples.flatMap((sample) => updatesOf(sample).map((row) => row.name)))];
  if (!names.includes(ratioState.parameter)) ratioState.parameter = EVERY_PARAMETER;
  const heat = h('div'), curve = h('div');
  const line = readout('Point at a cell, or focus the drawing and use the arrow keys.');
  const steps = slider('Step', {min: 0, max: samples.length - 1, value: ratioState.step,
    text: (i) => `${countText(samples[i].step)} (sample ${i + 1} of ${samples.length})`,
    changed: (i) => {
      ratioState.step = i;
      drawRatios(heat, line, samples, names, width);
    }});
  const which = select('Shares over the steps of', [EVERY_PARAMETER, ...names].map((name) => [name, name]),
    ratioState.parameter, (name) => {
      ratioState.parameter = name;
      drawRatioCurve(curve, samples, width);
    });
  show(body, h('div', {class: 'controls'}, steps.node), heat, h('div', {class: 'controls'}, which),
    curve);
  drawRatios(heat, line, samples, names, width);
  drawRatioCurve(curve, samples, width);
}

function updatesOf(sample) {
  return sample.rows.filter((row) => row.kind === 'update' && row.ratio);
}

function drawRatios(heat, line, samples, names, width) {
  const sample = samples[ratioState.step];
  const rows = names.map((name) => ratioRow(name, updatesOf(sample).find((row) => row.name === name)));
  const ratios = samples.flatMap((one) => updatesOf(one).map((row) => row.ratio));
  const [lo, hi] = exponentRange(ratios, () => 0, [-14, -3]);
  show(heat, ratioSentence(updatesOf(sample), sample.step),
    heatmap(`Update divided by weight at step ${sample.step}`, {rows, width, line,
      columns: {lo: Math.max(lo, -40), hi: Math.min(hi, 12)}, left: ['0'],
      right: ['held in', 'below 2⁻¹¹', 'below 2⁻⁸'],
      xLabel: '|update| / |weight| of each element, powers of two',
      strips: [{name: '', zones: ratioZones()}],
      lines: LINES.map(([, e]) => [e, '']), describe: describeRatio}), line);
}

function ratioZones() {
  return [[-Infinity, -11, 'zero', 'lost in f16 and bf16'], [-11, -8, 'subnormal', 'lost in bf16'],
    [-8, Infinity, 'normal', 'kept']];
}

function ratioRow(name, row) {
  if (!row) return {name, data: null, shift: 0, left: [0], right: ['', '', ''], n: 0};
  const n = total(row.ratio.counts) + row.ratio.zero;
  return {name, data: row.ratio, shift: 0, n, left: [shareOf(row.ratio.zero, n)],
    right: [row.dtype, ...LINES.map(([, e]) => percentText(ratioShare(row.ratio, e)))]};
}

function describeRatio(row, range, count) {
  if (!row.data) return `${row.name}: not in this sample`;
  return `${row.name}: ${countText(count)} of ${countText(row.n)} elements ` +
    `(${percentText(shareOf(count, row.n))}) have |update| / |weight| ${range}. ` +
    `Update exactly zero: ${countText(row.data.zero)}.`;
}

function ratioSentence(rows, step) {
  const sum = addRatios(rows.map((row) => row.ratio));
  const [half, brain] = LINES.map(([, e]) => percentText(ratioShare(sum, e)));
  return h('p', {class: 'summary', 'aria-live': 'polite'}, `At step ${countText(step)}, `,
    h('strong', {}, half), ' of the non-zero updates are below 2⁻¹¹ of their weight (less than half the ' +
    'spacing of f16 beside a weight of 1), ', h('strong', {}, brain), ' below 2⁻⁸ (bf16). Added to a 16-bit ' +
    'weight they would be lost; f32 masters keep them.');
}

/** The shares below both lines over the sampled steps. */
function drawRatioCurve(curve, samples, width) {
  const name = ratioState.parameter;
  const points = samples.map((sample) => {
    const rows = updatesOf(sample).filter((row) => name === EVERY_PARAMETER || row.name === name);
    const sum = addRatios(rows.map((row) => row.ratio));
    return {step: sample.step, shares: LINES.map(([, e]) => rows.length ? 100 * ratioShare(sum, e) : NaN)};
  });
  const area = frame(`Share of lost updates of ${name} over the steps`, {width, height: 220,
    x: stepAxis(points[0].step, points.at(-1).step, width),
    y: {min: 0, max: 100, label: 'share of non-zero updates below the line, %',
      ticks: [0, 25, 50, 75, 100].map((v) => [v, String(v)])}});
  LINES.forEach(([format], i) => area.layer.append(
    s('path', {class: `line dtype-${format}`, d: path(points.map((one) => [one.step, one.shares[i]]), area.px,
      area.py)}),
    ...points.filter((one) => Number.isFinite(one.shares[i])).map((one) =>
      s('circle', {class: `dot dtype-${format}`, cx: area.px(one.step), cy: area.py(one.shares[i]), r: 2.5}))));
  const line = readout('');
  addCursor(area, points.map((one) => one.step), (i) => `Step ${countText(points[i].step)}, ${name}: ` +
    `${percentText(points[i].shares[0] / 100)} below 2⁻¹¹, ${percentText(points[i].shares[1] / 100)} below 2⁻⁸.`,
  line);
  show(curve, area.svg, legend([['line-key dtype-f16', 'below 2⁻¹¹: lost in f16'],
    ['line-key dtype-bf16', 'below 2⁻⁸: lost in bf16']]), line);
}
