// Panel 7: the levels of one net side by side.

const levelsState = {loss: 0};

function renderLevels(body, {run, report, width}) {
  const group = report.runs.filter((one) => one.info.group === run.info.group);
  const base = group.find((one) => one.info.level === 'O0') ?? null;
  const compared = base && group.length > 1;
  const most = group.reduce((n, one) => Math.max(n, ...one.steps.map((step) => step.losses.length)), 0);
  levelsState.loss = Math.min(levelsState.loss, Math.max(0, most - 1));
  const picker = most > 1 ? choice('Loss', Array.from({length: most}, (_, i) => [i, `number ${i + 1}`]),
    levelsState.loss, (i) => {
      levelsState.loss = i;
      renderLevels(body, {run, report, width});
      body.querySelector('input:checked').focus();
    }) : null;
  show(body, h('p', {class: 'summary'}, levelsSentence(group, base)),
    picker && h('div', {class: 'controls'}, picker),
    compared ? differenceDrawing(group, base, width) : null, lossDrawing(group, width),
    levelTable(group, base), emulatedNote(group));
}

function levelsSentence(group, base) {
  const name = group[0].info.group;
  if (group.length === 1)
    return `This page holds one level of ${name}, ${group[0].info.level}. To compare levels from the same ` +
      'weights, run: bench --report FILE';
  const levels = group.map((one) => one.info.level).join(', ');
  if (!base) return `${name} at ${levels}. There is no run at O0 to compare with.`;
  const ends = group.filter((one) => one !== base).map((one) => {
    const differences = differencesOf(one, base).map(([, d]) => d);
    const most = differences.filter(Number.isFinite).reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    return `${one.info.level} by ${differences.every(Number.isFinite) ? '' : 'non-finite values and '}` +
      `at most ${numberText(most, 3)}`;
  });
  return `${name} at ${levels}, from the same weights. The losses differ from those of O0: ${ends.join(', ')}.`;
}

/** Returns [[step, loss minus O0's loss]] of the steps that both runs have. */
function differencesOf(run, base) {
  const at = new Map(base.steps.map((step) => [step.step, step.losses[levelsState.loss]]));
  return run.steps.filter((step) => at.get(step.step) !== undefined &&
    step.losses[levelsState.loss] !== undefined).map((step) =>
    [step.step, step.losses[levelsState.loss] - at.get(step.step)]);
}

/** A logarithmic axis with sign: linear up to +-2^-n of it, decades beyond. */
function signedLogAxis(values, label) {
  const sizes = values.map(Math.abs).filter((v) => v > 0 && Number.isFinite(v));
  const most = sizes.reduce((a, b) => Math.max(a, b), 0) || 1;
  const least = sizes.reduce((a, b) => Math.min(a, b), Infinity);
  const top = Math.ceil(Math.log10(most));
  const bottom = Math.max(top - 7, Math.min(top - 1, Math.floor(Math.log10(Math.min(least, most)))));
  const place = (v) => Math.sign(v) * Math.max(0, Math.log10(Math.max(Math.abs(v), 1e-300)) - bottom + 1);
  const end = top - bottom + 1;
  const decades = integerTicks(bottom, top, 5);
  const ticks = decades.flatMap((e) => [[-(e - bottom + 1), `-1e${e}`], [e - bottom + 1, `+1e${e}`]]);
  return {place, axis: {min: -end, max: end, label, ticks: [...ticks, [0, '0']]}};
}

function differenceDrawing(group, base, width) {
  const curves = group.filter((one) => one !== base).map((one) => ({run: one, points: differencesOf(one, base)}));
  const steps = curves.flatMap((curve) => curve.points.map(([step]) => step));
  if (steps.length === 0) return missing('The runs share no step with a loss.');
  const {place, axis} = signedLogAxis(curves.flatMap((curve) => curve.points.map(([, d]) => d)),
    'loss minus the loss at O0, logarithmic on both sides of 0');
  const first = steps.reduce((a, b) => Math.min(a, b)), last = steps.reduce((a, b) => Math.max(a, b));
  const area = frame('Loss minus the loss at O0 over the steps', {width, height: 320,
    x: stepAxis(first, last, width), y: axis});
  area.layer.append(s('line', {class: 'axis', x1: area.left, x2: area.right, y1: area.py(0), y2: area.py(0)}));
  curves.forEach(({run, points}) => area.layer.append(
    s('path', {class: `line ${levelClass(run)}`, d: path(points.map(([x, d]) => [x, place(d)]), area.px, area.py)}),
    ...points.filter(([, d]) => !Number.isFinite(d)).slice(0, 200).map(([x]) =>
      marker('overflow', area.px(x), area.top + 5))));
  const line = readout('Point at the drawing, or focus it and use the arrow keys.');
  const xs = [...new Set(steps)].sort((a, b) => a - b);
  const tables = curves.map(({run, points}) => [run.info.level, new Map(points)]);
  addCursor(area, xs, (i) => `Step ${countText(xs[i])}: ` + tables.map(([level, at]) =>
    `${level} ${at.has(xs[i]) ? numberText(at.get(xs[i]), 3) : 'no loss'}`).join(', ') + '.', line);
  return h('figure', {}, h('figcaption', {}, 'Loss minus the loss at O0'), area.svg,
    legend([...curves.map(({run}) => [`line-key ${levelClass(run)}`, run.info.level]),
      ['mark overflow-mark', 'inf or nan']]), line);
}

function levelClass(run) {
  return `level-${/^O[0-5]$/.test(run.info.level) ? run.info.level : 'none'}`;
}

function lossDrawing(group, width) {
  const curves = group.map((run) => ({run, points: run.steps.filter((step) =>
    step.losses[levelsState.loss] !== undefined).map((step) => [step.step, step.losses[levelsState.loss]])}));
  const finite = curves.flatMap((curve) => curve.points.map(([, loss]) => loss)).filter(Number.isFinite);
  const steps = curves.flatMap((curve) => curve.points.map(([step]) => step));
  if (steps.length === 0) return missing('No loss was recorded.');
  const low = finite.reduce((a, b) => Math.min(a, b), Infinity);
  const high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
  const area = frame('Loss over the steps', {width, height: 240,
    x: stepAxis(steps.reduce((a, b) => Math.min(a, b)), steps.reduce((a, b) => Math.max(a, b)), width),
    y: finite.length > 0 ? linearAxis(low, high, 'loss') : linearAxis(0, 1, 'loss (no finite one)')});
  curves.forEach(({run, points}) => area.layer.append(
    s('path', {class: `line ${levelClass(run)}`, d: path(points, area.px, area.py)}),
    ...points.filter(([, loss]) => !Number.isFinite(loss)).slice(0, 200).map(([x]) =>
      marker('overflow', area.px(x), area.top + 5))));
  const line = readout('');
  const xs = [...new Set(steps)].sort((a, b) => a - b);
  const tables = curves.map(({run, points}) => [run.info.level, new Map(points)]);
  addCursor(area, xs, (i) => `Step ${countText(xs[i])}: ` + tables.map(([level, at]) =>
    `${level} ${at.has(xs[i]) ? numberText(at.get(xs[i]), 5) : 'no loss'}`).join(', ') + '.', line);
  return h('figure', {}, h('figcaption', {}, 'Loss'), area.svg, legend([...curves.map(({run}) =>
    [`line-key ${levelClass(run)}`, run.info.level]), ['mark overflow-mark', 'inf or nan']]), line);
}

function levelTable(group, base) {
  const most = (key) => group.reduce((a, run) => Math.max(a, run.figures[key] || 0), 0);
  const bar = (run, key, text) => h('span', {class: 'bar-cell'}, h('span', {class: 'bar', 'aria-hidden': 'true',
    style: `width:${(72 * shareOf(run.figures[key] || 0, most(key))).toFixed(1)}px`}), text);
  const rows = group.map((run) => [
    `${run.info.level}${run.info.emulated ? ' (emulated)' : ''}`, numberText(run.figures.lastLoss),
    base && run !== base ? numberText(run.figures.lastLoss - base.figures.lastLoss, 3) : '',
    bar(run, 'ms', msText(run.figures.ms)),
    base ? numberText(run.figures.ms / base.figures.ms, 3) : '',
    bar(run, 'memory', bytesText(run.figures.memory)),
    bar(run, 'casts', countText(run.figures.casts)), bytesText(run.figures.castBytes),
    countText(run.figures.skipped)]);
  return table('Figures by level; times are medians of the steps without sampling', ['Level', 'Last loss',
    'minus O0', 'Time per step', 'time / O0', 'Peak memory', 'Casts per step', 'Cast bytes per step',
    'Skipped steps'], rows, [1, 2, 3, 4, 5, 6, 7, 8]);
}

function emulatedNote(group) {
  const names = group.filter((run) => run.info.emulated).map((run) => run.info.level);
  return names.length === 0 ? null : h('p', {class: 'note'}, `${names.join(', ')}: ${EMULATED}`);
}
