// Panel 1: the curves of the training: loss, learning rate, throughput, and what was logged.

const MOST_DASHES = 4;  // kinds of lines that can be told apart

function renderTraining(body, {run, width}) {
  if (run.steps.length === 0) {
    show(body, missing('This run has no steps, so that there are no curves.'));
    return;
  }
  const logged = [...run.logs], is_loss = ([name]) => /loss/i.test(name);
  const losses = [['loss', stepSeries(run, (step) => step.losses[0])],
    ...logged.filter(is_loss)];
  const small = Math.max(280, Math.floor((width - 24) / 2));
  const others = [...logged.filter((series) => !is_loss(series)).map(([name, points]) =>
    [name, [[name, points]]]), ...ownCurves(run)];
  show(body, h('p', {class: 'summary'}, summaryOf(run)),
    curveFigure(run, 'loss', losses, width, 220),
    h('div', {class: 'curves'}, others.map(([name, series]) =>
      curveFigure(run, name, series, small, 150))));
}

/** Returns [[step, value]] of the steps that have the value; on a device only sampled ones have
 *  losses. */
function stepSeries(run, value) {
  return run.steps.map((step) => [step.step, value(step)]).filter(([, y]) => y !== undefined);
}

/** Returns the curves that every run has: [[name, series]]. Times of sampled steps are left out. */
function ownCurves(run) {
  const out = [], groups = Math.max(0, ...run.steps.map((step) => step.lrs.length));
  const rates = Array.from({length: Math.min(groups, MOST_DASHES)}, (_, i) =>
    [groups > 1 ? `group ${i}` : 'learning rate', stepSeries(run, (step) => step.lrs[i])]);
  if (rates.length > 0) out.push(['learning rate', rates]);
  const samples = run.info.samples ?? 1, unit = run.info.samples ? 'samples' : 'steps';
  const speed = stepSeries(run, (step) => step.sampled ? undefined : 1000 * samples / step.ms);
  out.push([`${unit} per second`, [[`${unit} per second`, speed]]]);
  return out;
}

/** Returns a figure of curves [[name, [[step, value]]]] with the skipped steps marked. */
function curveFigure(run, name, series, width, height) {
  const values = series.flatMap(([, points]) => points.map(([, y]) => y)).filter(Number.isFinite);
  if (values.length === 0)
    return h('figure', {}, h('figcaption', {}, name), missing('No finite value was recorded.'));
  const [min, max] = rangeOf(values);
  const first = run.steps[0].step, last = run.steps.at(-1).step;
  const area = frame(`${name} over the steps`, {width, height, x: stepAxis(first, last, width),
    y: linearAxis(min, max, name)});
  series.forEach(([, points], i) => area.layer.append(s('path', {
    class: `line curve-${i % MOST_DASHES} dash-${i % MOST_DASHES}`,
    d: path(spread(points), area.px, area.py)})));
  const skipped = run.steps.filter((step) => step.results.includes('skipped'));
  area.layer.append(...skipped.map((step) => marker('skip', area.px(step.step), area.bottom - 6)));
  const steps = [...new Set(series.flatMap(([, points]) => points.map(([x]) => x)))].sort(
    (a, b) => a - b);
  const at = series.map(([, points]) => new Map(points));
  const describe = (i) => `Step ${countText(steps[i])}: ` + series.map(([one], k) =>
    at[k].has(steps[i]) ? `${one} ${numberText(at[k].get(steps[i]))}` : '').filter(Boolean)
    .join(', ') + (skipped.some((step) => step.step === steps[i]) ? '; skipped' : '');
  const keys = series.map(([one], i) => [`line-key curve-${i % MOST_DASHES}`, one]);
  if (skipped.length > 0) keys.push(['mark skip-mark', 'step skipped']);
  return figureOf('', area, steps, describe, keys.length > 1 ? keys : []);
}

/** Returns the points to draw. Of more than 2000, the least and largest finite of each part. */
function spread(points) {
  if (points.length <= 2000) return points;
  const finite = points.filter(([, y]) => Number.isFinite(y));
  const out = [], part = Math.ceil(finite.length / 1000);
  for (let i = 0; i < finite.length; i += part) {
    const some = finite.slice(i, i + part);
    const least = some.reduce((a, b) => (b[1] < a[1] ? b : a));
    const largest = some.reduce((a, b) => (b[1] > a[1] ? b : a));
    out.push(...(least[0] <= largest[0] ? [least, largest] : [largest, least]));
  }
  return out;
}
