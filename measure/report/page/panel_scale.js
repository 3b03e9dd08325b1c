// Panel 4: the loss scale over the steps.

function renderScale(body, {run, width}) {
  const steps = run.steps.filter((step) => step.scales.length > 0);
  if (steps.length === 0) {
    show(body, missing('No step of this run has a loss scale. Levels O1 and O2 scale the loss; ' +
      'the others use the scale 1 unless the option loss_scale says otherwise.'));
    return;
  }
  const events = scaleEvents(steps);
  show(body, h('p', {class: 'summary'}, scaleSentence(run, steps, events)),
    figureOf('', scaleDrawing(steps, events, width), steps.map((step) => step.step),
      (i) => describeScale(steps[i]), [['line-key scale', 'loss scale'],
        ['mark overflow-mark', 'gradient overflow'], ['mark growth-mark', 'scale grew'],
        ['mark skip-mark', 'step skipped']]),
    events.overflow.length > 0 ? overflowTable(steps, events.overflow) : null);
}

/** Finds where gradients overflowed, steps were skipped and scales grew. */
function scaleEvents(steps) {
  const grew = (step, i) => i > 0 && step.scales.some((scale, k) => scale > steps[i - 1].scales[k]);
  return {growth: steps.filter(grew), overflow: steps.filter(overflowed),
    skipped: steps.filter((step) => step.results.includes('skipped'))};
}

function scaleSentence(run, steps, {growth, overflow, skipped}) {
  const kind = run.info.loss_scale === 'dynamic' ? 'dynamic' : 'static';
  const [first, last] = [steps[0].scales[0], steps.at(-1).scales[0]];
  return `The loss scale is ${kind}. It was ${scaleText(first)} in the first step and ` +
    `${scaleText(last)} in the last. Gradients overflowed in ${plural(overflow.length, 'step')}, ` +
    `${countText(skipped.length)} of ${plural(steps.length, 'step')} were skipped, and the scale ` +
    `grew ${plural(growth.length, 'time')}.`;
}

function scaleDrawing(steps, events, width) {
  const logs = steps.flatMap((step) => step.scales.map(Math.log2)).filter(Number.isFinite);
  const [low, high] = logs.length > 0 ? rangeOf(logs) : [0, 0];
  const min = Math.floor(low) - 1, max = Math.ceil(high) + 1;
  const area = frame('Loss scale over the steps', {width, height: 260,
    x: stepAxis(steps[0].step, steps.at(-1).step, width),
    y: {min, max, label: 'loss scale, log2 axis',
      ticks: integerTicks(min, max, 6).map((e) => [e, power2(e)])}});
  for (let i = 0; i < Math.max(...steps.map((step) => step.scales.length)); ++i)
    area.layer.append(s('path', {class: `line scale dash-${i % 4}`,
      d: stairs(steps.map((step) => [step.step, Math.log2(step.scales[i])]), area.px, area.py)}));
  const add = (kind, list, y) => area.layer.append(...list.map((step) =>
    marker(kind, area.px(step.step), y(step))));
  const at = (step) => area.py(between(Math.log2(step.scales[0]) || 0, min, max));
  add('growth', events.growth, at);
  add('skip', events.skipped, () => area.bottom - 8);
  add('overflow', events.overflow, at);
  return area;
}

/** Returns a marker: a cross, a triangle or a square, told apart by shape and not colour alone. */
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
  const losses = step.losses.map((one) => numberText(one)).join(', ');
  return `Step ${countText(step.step)}: loss scale ${step.scales.map(scaleText).join('; ')}; ` +
    `${step.results.join(', ') || 'no optimizer step'}; loss ${losses || 'not recorded'}.${first}`;
}

function overflowTable(steps, overflow) {
  const scales = (step) => step.scales.map(scaleText).join('; ');
  const rows = overflow.slice(0, 50).map((step) => {
    const next = steps.find((one) => one.step > step.step);
    return [countText(step.step), scales(step), next ? scales(next) : 'no further step',
      step.first_nonfinite ?? 'not recorded'];
  });
  const more = overflow.length > 50 ? `, the first 50 of ${countText(overflow.length)}` : '';
  return h('div', {class: 'tall-table'}, table(`Steps with an overflow${more}`,
    ['Step', 'Loss scale', 'Loss scale after it', 'First non-finite gradient'], rows));
}
