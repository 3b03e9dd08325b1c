// Panel 3: the loss scale over the steps.

function renderScale(body, {run, width}) {
  const steps = run.steps.filter((step) => step.scales.length > 0);
  if (steps.length === 0) {
    show(body, missing('No step of this run has a loss scale. Levels O1 and O2 scale the loss; the others ' +
      'use the scale 1 unless the option loss_scale says otherwise.'));
    return;
  }
  const events = scaleEvents(run, steps);
  const line = readout('Point at the drawing, or focus it and use the arrow keys.');
  show(body, h('p', {class: 'summary'}, scaleSentence(run, steps, events)),
    scaleDrawing(steps, events, width, line),
    legend([['line-key scale', 'loss scale'], ['mark overflow-mark', 'gradient overflow'],
      ['mark growth-mark', 'scale grew'], ['mark skip-mark', 'step skipped']]), line,
    events.overflow.length > 0 ? overflowTable(run, events) : null);
}

/** Finds where gradients overflowed, steps were skipped and scales grew. */
function scaleEvents(run, steps) {
  const growth = [];
  for (let i = 1; i < steps.length; ++i)
    if (steps[i].scales.some((scale, k) => scale > steps[i - 1].scales[k])) growth.push(steps[i]);
  return {growth, overflow: steps.filter(overflowed),
    skipped: steps.filter((step) => step.results.includes('skipped'))};
}

function scaleSentence(run, steps, {growth, overflow, skipped}) {
  const kind = run.info.loss_scale === 'dynamic' ? 'dynamic' :
    `static (${numberText(toNumber(run.info.loss_scale ?? steps[0].scales[0]))})`;
  const [first, last] = [steps[0].scales[0], steps.at(-1).scales[0]];
  return `The loss scale is ${kind}. It was ${scaleText(first)} in the first step and ${scaleText(last)} in ` +
    `the last. Gradients overflowed in ${plural(overflow.length, 'step')}, ${plural(skipped.length, 'step')} ` +
    `of ${countText(steps.length)} were skipped, and the scale grew ${plural(growth.length, 'time')}.`;
}

function scaleDrawing(steps, events, width, line) {
  const logs = steps.flatMap((step) => step.scales).filter((scale) => scale > 0 && Number.isFinite(scale))
    .map(Math.log2);
  const low = Math.floor(logs.reduce((a, b) => Math.min(a, b), Infinity)) - 1;
  const high = Math.ceil(logs.reduce((a, b) => Math.max(a, b), -Infinity)) + 1;
  const [min, max] = logs.length > 0 ? [low, high] : [-1, 1];
  const area = frame('Loss scale over the steps', {width, height: 260,
    x: stepAxis(steps[0].step, steps.at(-1).step, width),
    y: {min, max, label: 'loss scale, log2 axis', ticks: integerTicks(min, max, 6).map((e) =>
      [e, power2(e)])}});
  const scalers = Math.max(...steps.map((step) => step.scales.length));
  for (let i = 0; i < scalers; ++i)
    area.layer.append(s('path', {class: `line scale dash-${i % 4}`,
      d: stairs(steps.map((step) => [step.step, Math.log2(step.scales[i])]), area.px, area.py)}));
  const y = (step) => area.py(between(Math.log2(step.scales[0]) || 0, min, max));
  area.layer.append(...events.growth.map((step) => marker('growth', area.px(step.step), y(step))),
    ...events.skipped.map((step) => marker('skip', area.px(step.step), area.bottom - 8)),
    ...events.overflow.map((step) => marker('overflow', area.px(step.step), y(step))));
  addCursor(area, steps.map((step) => step.step), (i) => describeScale(steps[i]), line);
  return area.svg;
}

/** Returns a marker: a cross, a triangle or a square, so that shape tells it and not colour alone. */
function marker(kind, x, y) {
  const shape = {
    overflow: `M${x - 4} ${y - 4}l8 8M${x - 4} ${y + 4}l8 -8`,
    growth: `M${x - 5} ${y + 4}l5 -9l5 9z`,
    skip: `M${x - 3.5} ${y - 3.5}h7v7h-7z`,
  }[kind];
  return s('path', {class: `${kind}-mark`, d: shape});
}

function describeScale(step) {
  const first = step.first_nonfinite ? ` First non-finite gradient: ${step.first_nonfinite}.` : '';
  return `Step ${countText(step.step)}: loss scale ${step.scales.map(scaleText).join('; ')}; ` +
    `${step.results.join(', ') || 'no optimizer step'}; loss ${step.losses.map((one) =>
      numberText(one)).join(', ') || 'not recorded'}.${first}`;
}

function overflowTable(run, {overflow}) {
  const rows = overflow.slice(0, 50).map((step) => {
    const next = run.steps.find((one) => one.step > step.step);
    return [countText(step.step), step.scales.map(scaleText).join('; '),
      next ? next.scales.map(scaleText).join('; ') : 'no further step',
      step.first_nonfinite ?? 'not recorded'];
  });
  const more = overflow.length > 50 ? `, the first 50 of ${countText(overflow.length)}` : '';
  return table(`Steps with an overflow${more}`,
    ['Step', 'Loss scale', 'Loss scale after it', 'First non-finite gradient'], rows);
}
