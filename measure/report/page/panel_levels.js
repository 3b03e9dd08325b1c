// Panel 8: the levels of one net side by side.

const levelsState = {loss: 0};

function renderLevels(body, {run, report, width}) {
  const state = levelsState;
  const group = report.runs.filter((one) => one.info.group === run.info.group);
  const base = group.find((one) => one.info.level === 'O0') ?? null;
  const others = group.filter((one) => one !== base);
  const counts = group.flatMap((one) => one.steps.map((step) => step.losses.length));
  const most = rangeOf([1, ...counts])[1];
  state.loss = Math.min(state.loss, most - 1);
  const picker = most > 1 ? choice('Loss', Array.from({length: most}, (_, i) =>
    [i, `number ${i + 1}`]), state.loss, (i) => {
    state.loss = i;
    renderLevels(body, {run, report, width});
    body.querySelector('input:checked').focus();
  }) : null;
  show(body, h('p', {class: 'summary'}, levelsSentence(group, base, others)),
    picker && h('div', {class: 'controls'}, picker),
    base && others.length > 0 ? differenceFigure(others, base, width) : null,
    lossFigure(group, width), levelTable(group, base), emulatedNote(group));
}

function levelsSentence(group, base, others) {
  const name = group[0].info.group;
  if (group.length === 1)
    return `This page holds one level of ${name}: ${levelText(group[0])}. To compare levels from ` +
      'the same weights, run: bench --report FILE';
  const levels = group.map((one) => one.info.level).join(', ');
  if (!base) return `${name} at ${levels}. There is no run at O0 to compare with.`;
  const ends = others.map((one) => {
    const sizes = differencesOf(one, base).map(([, d]) => Math.abs(d));
    const finite = sizes.filter(Number.isFinite);
    return `${one.info.level} by ${finite.length < sizes.length ? 'non-finite values and ' : ''}` +
      `at most ${numberText(rangeOf([0, ...finite])[1], 3)}`;
  });
  return `${name} at ${levels}, from the same weights. The losses differ from those of O0: ` +
    `${ends.join(', ')}.`;
}

/** Returns [[step, loss]] of a run, of the loss that is chosen. */
function lossesOf(run) {
  return run.steps.map((step) => [step.step, step.losses[levelsState.loss]]).filter(([, loss]) =>
    loss !== undefined);
}

/** Returns [[step, loss minus O0's loss]] of the steps that both runs have. */
function differencesOf(run, base) {
  const at = new Map(lossesOf(base));
  return lossesOf(run).filter(([step]) => at.has(step)).map(([step, loss]) =>
    [step, loss - at.get(step)]);
}

/** A logarithmic axis with sign: {place, axis}; place maps a value to its position. Magnitudes
 *  below the least decade lie between it and 0. */
function signedLogAxis(values, label) {
  const sizes = values.map(Math.abs).filter((v) => v > 0 && Number.isFinite(v));
  const [least, most] = sizes.length > 0 ? rangeOf(sizes) : [1, 1];
  const top = Math.ceil(Math.log10(most));
  const bottom = between(Math.floor(Math.log10(least)), top - 5, top - 1);
  const place = (v) => Number.isFinite(v) ? Math.sign(v) *
    Math.max(0, Math.log10(Math.max(Math.abs(v), 1e-300)) - bottom + 1) : NaN;
  const end = top - bottom + 1;
  const ticks = integerTicks(bottom, top, 5).flatMap((e) =>
    [[bottom - 1 - e, `-1e${e}`], [e - bottom + 1, `+1e${e}`]]);
  return {place, axis: {min: -end, max: end, label, ticks: [...ticks, [0, '0']]}};
}

function differenceFigure(others, base, width) {
  const curves = others.map((run) => ({run, points: differencesOf(run, base)}));
  const {place, axis} = signedLogAxis(curves.flatMap((curve) => curve.points.map(([, d]) => d)),
    'loss minus the loss at O0, logarithmic on both sides of 0');
  return levelFigure('Loss minus the loss at O0', curves, place, axis, width, 320);
}

function lossFigure(group, width) {
  const curves = group.map((run) => ({run, points: lossesOf(run)}));
  const finite = curves.flatMap((curve) => curve.points.map(([, loss]) => loss))
    .filter(Number.isFinite);
  const axis = finite.length > 0 ? linearAxis(...rangeOf(finite), 'loss') :
    linearAxis(0, 1, 'loss (no finite one)');
  return levelFigure('Loss', curves, (loss) => loss, axis, width, 240);
}

/** A drawing of one curve for each level; inf and nan are marked at the top. */
function levelFigure(caption, curves, place, y, width, height) {
  const steps = [...new Set(curves.flatMap((curve) => curve.points.map(([step]) => step)))]
    .sort((a, b) => a - b);
  if (steps.length === 0) return missing(`${caption}: no loss was recorded.`);
  const area = frame(`${caption} over the steps`, {width, height,
    x: stepAxis(steps[0], steps.at(-1), width), y});
  const nameOf = ({info}) => `level-${/^O[0-5]$/.test(info.level) ? info.level : 'none'}`;
  for (const {run, points} of curves)
    area.layer.append(s('path', {class: `line ${nameOf(run)}`,
      d: path(points.map(([x, v]) => [x, place(v)]), area.px, area.py)}),
    ...points.filter(([, v]) => !Number.isFinite(v)).slice(0, 200).map(([x]) =>
      marker('overflow', area.px(x), area.top + 5)));
  const tables = curves.map(({run, points}) => [run.info.level, new Map(points)]);
  const describe = (i) => `Step ${countText(steps[i])}: ` + tables.map(([level, at]) =>
    `${level} ${at.has(steps[i]) ? numberText(at.get(steps[i])) : 'no loss'}`).join(', ') + '.';
  return figureOf(caption, area, steps, describe, [...curves.map(({run}) =>
    [`line-key ${nameOf(run)}`, levelText(run)]), ['mark overflow-mark', 'inf or nan']]);
}

function levelTable(group, base) {
  const bar = (run, key, text) => {
    const most = rangeOf([0, ...group.map((one) => one.figures[key] || 0)])[1];
    const size = (72 * shareOf(run.figures[key] || 0, most)).toFixed(1);
    return h('span', {class: 'bar-cell'},
      h('span', {class: 'bar', 'aria-hidden': 'true', style: `width:${size}px`}), text);
  };
  const rows = group.map((run) => [
    `${run.info.level}${run.info.emulated ? ' (emulated)' : ''}`, numberText(run.figures.lastLoss),
    base && run !== base ? numberText(run.figures.lastLoss - base.figures.lastLoss, 3) : '',
    bar(run, 'ms', msText(run.figures.ms)),
    base ? ratioText(run.figures.ms / base.figures.ms) : '',
    bar(run, 'memory', bytesText(run.figures.memory)),
    bar(run, 'casts', countText(run.figures.casts)), bytesText(run.figures.castBytes),
    countText(run.figures.skipped)]);
  return table('Figures by level; times are medians of the steps without sampling',
    ['Level', 'Last loss', 'minus O0', 'Time per step', 'time / O0', 'Peak memory',
      'Casts per step', 'Cast bytes per step', 'Skipped steps'], rows, [1, 2, 3, 4, 5, 6, 7, 8]);
}

function ratioText(ratio) {
  return Number.isFinite(ratio) ? numberText(ratio, 3) : 'unknown';
}

function emulatedNote(group) {
  const names = group.filter((run) => run.info.emulated).map((run) => run.info.level);
  return names.length === 0 ? null : h('p', {class: 'note'}, `${names.join(', ')}: ${EMULATED}`);
}
