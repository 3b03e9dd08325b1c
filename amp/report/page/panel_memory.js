// Panel 6: memory in use over one step, by category.

const memoryState = {index: 0};

function renderMemory(body, {run, width}) {
  if (run.memory.length === 0) {
    show(body, missing('This run has no record of memory over a step; it is taken in the first sampled step ' +
      'and in a later one.'), memoryOverSteps(run, width));
    return;
  }
  memoryState.index = Math.min(memoryState.index, run.memory.length - 1);
  const one = run.memory[memoryState.index];
  const peak = peakOf(one);
  const line = readout('Point at the drawing, or focus it and use the arrow keys.');
  const picker = run.memory.length > 1 ? choice('Step', run.memory.map((each, i) =>
    [i, countText(each.step)]), memoryState.index, (i) => {
    memoryState.index = i;
    renderMemory(body, {run, width});
    body.querySelector('input:checked').focus();
  }) : null;
  const used = one.categories.map((name, i) => [name, i]).filter(([, i]) =>
    one.points.some((point) => point.bytes[i] > 0));
  show(body, h('p', {class: 'summary'}, memorySentence(one, peak)),
    picker && h('div', {class: 'controls'}, picker), memoryDrawing(one, peak, width, line),
    legend([...used].reverse().map(([name, i]) => [`category-${i}`, name])), line,
    table('Memory at the peak and its largest value by category', ['Category', 'At the peak', 'Largest'],
      used.map(([name, i]) => [name, bytesText(peak.bytes[i]),
        bytesText(Math.max(...one.points.map((point) => point.bytes[i])))]), [1, 2]),
    memoryOverSteps(run, width));
}

/** The point of a step with most bytes. */
function peakOf(one) {
  return one.points.reduce((most, point) => total(point.bytes) > total(most.bytes) ? point : most);
}

function memorySentence(one, peak) {
  const sum = total(peak.bytes);
  const most = peak.bytes.indexOf(Math.max(...peak.bytes));
  return `In step ${countText(one.step)} memory peaks at ${bytesText(sum)} after ${peak.at} (${peak.phase}). ` +
    `The largest category there is ${one.categories[most]} with ${bytesText(peak.bytes[most])}, ` +
    `${percentText(shareOf(peak.bytes[most], sum))} of it.`;
}

function bytesAxis(most, label) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(most || 1) / Math.log(1024)));
  return {min: 0, max: most * 1.06 || 1, label, ticks: roundTicks(0, most * 1.06 / unit || 1, 5).map((v) =>
    [v * unit, bytesText(v * unit)])};
}

function memoryDrawing(one, peak, width, line) {
  const points = one.points, sums = points.map((point) => total(point.bytes));
  const last = Math.max(1, points.length - 1);
  const area = frame(`Memory over step ${one.step}`, {width, height: 310, head: 16,
    x: {min: 0, max: last, label: 'ops in the order they ran', ticks: integerSteps(0, last, width / 110).map((i) =>
      [i, String(i)])},
    y: bytesAxis(Math.max(...sums), 'bytes in use')});
  let below = points.map(() => 0);
  one.categories.forEach((name, i) => {
    const above = points.map((point, p) => below[p] + point.bytes[i]);
    const d = path(above.map((v, p) => [p, v]), area.px, area.py) +
      path(below.map((v, p) => [p, v]).reverse(), area.px, area.py).replace('M', 'L') + 'Z';
    if (points.some((point) => point.bytes[i] > 0))
      area.layer.append(s('path', {class: `area category-${i}`, d}, s('title', {}, name)));
    below = above;
  });
  area.layer.append(...phaseMarks(points, area), ...peakMark(points.indexOf(peak), sums, peak, area));
  addCursor(area, points.map((_, i) => i), (i) => memoryAt(one, points[i]), line);
  return area.svg;
}

function memoryAt(one, point) {
  const parts = one.categories.map((name, i) => [name, point.bytes[i]]).filter(([, bytes]) => bytes > 0);
  return `After ${point.at} (${point.phase}): ${bytesText(total(point.bytes))}: ` +
    parts.map(([name, bytes]) => `${name} ${bytesText(bytes)}`).join(', ') + '.';
}

/** Lines between the phases, with their names where they fit. */
function phaseMarks(points, area) {
  const starts = points.map((point, i) => [point.phase, i]).filter(([phase, i]) =>
    i === 0 || points[i - 1].phase !== phase);
  return starts.map(([phase, i], n) => {
    const end = starts[n + 1]?.[1] ?? points.length - 1;
    const fits = area.px(end) - area.px(i) > textWidth(phase, 11) + 8;
    return s('g', {}, i > 0 ? s('line', {class: 'phase', x1: area.px(i), x2: area.px(i), y1: area.top,
      y2: area.bottom}) : null,
    fits ? s('text', {class: 'small', x: area.px(i) + 4, y: area.top - 3}, phase) : null);
  });
}

function peakMark(i, sums, peak, area) {
  const x = area.px(i), y = area.py(sums[i]);
  const text = `peak ${bytesText(sums[i])}, ${peak.at}`;
  const toLeft = x + 8 + textWidth(text, 12) > area.right;
  return [s('circle', {class: 'peak', cx: x, cy: y, r: 4}),
    s('text', {class: 'halo', x: toLeft ? x - 8 : x + 8, y: Math.max(area.top + 12, y - 4),
      'text-anchor': toLeft ? 'end' : 'start'}, text)];
}

/** Memory in use after each step, which shows leaks. */
function memoryOverSteps(run, width) {
  const steps = run.steps.filter((step) => step.memory > 0);
  if (steps.length < 2) return null;
  const values = steps.map((step) => step.memory);
  const area = frame('Memory in use after each step', {width, height: 170,
    x: stepAxis(steps[0].step, steps.at(-1).step, width),
    y: bytesAxis(values.reduce((a, b) => Math.max(a, b)), 'bytes in use after the step')});
  area.layer.append(s('path', {class: 'line scale',
    d: path(steps.map((step) => [step.step, step.memory]), area.px, area.py)}));
  const line = readout('');
  addCursor(area, steps.map((step) => step.step), (i) =>
    `After step ${countText(steps[i].step)}: ${bytesText(steps[i].memory)}.`, line);
  return h('figure', {}, h('figcaption', {}, 'From step to step'), area.svg, line);
}
