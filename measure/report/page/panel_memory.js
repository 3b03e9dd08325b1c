// Panel 7: memory in use over one step, by category.

const memoryState = {index: 0};

function renderMemory(body, {run, width}) {
  if (run.memory.length === 0) {
    show(body, missing('This run has no record of memory over a step; it is taken in the first ' +
      'sampled step and in a later one.'), memoryOverSteps(run, width));
    return;
  }
  memoryState.index = Math.min(memoryState.index, run.memory.length - 1);
  const one = run.memory[memoryState.index], {points} = one, peak = peakOf(one);
  const picker = run.memory.length > 1 ? choice('Step', run.memory.map((each, i) =>
    [i, countText(each.step)]), memoryState.index, (i) => {
    memoryState.index = i;
    renderMemory(body, {run, width});
    body.querySelector('input:checked').focus();
  }) : null;
  const used = one.categories.map((name, i) => [name, i]).filter(([, i]) =>
    points.some((point) => point.bytes[i] > 0));
  show(body, h('p', {class: 'summary'}, memorySentence(one, peak)),
    picker && h('div', {class: 'controls'}, picker),
    figureOf('', memoryDrawing(one, peak, width), points.map((_, i) => i),
      (i) => memoryAt(one, points[i]), used.map(([name, i]) => [`category-${i}`, name]).reverse()),
    table('Memory by category', ['Category', 'At the peak', 'Largest'], used.map(([name, i]) =>
      [name, bytesText(peak.bytes[i]),
        bytesText(rangeOf(points.map((point) => point.bytes[i]))[1])]), [1, 2]),
    memoryOverSteps(run, width));
}

/** The point of a step with most bytes. */
function peakOf(one) {
  return one.points.reduce((most, point) =>
    total(point.bytes) > total(most.bytes) ? point : most);
}

function memorySentence(one, peak) {
  const sum = total(peak.bytes), most = peak.bytes.indexOf(Math.max(...peak.bytes));
  return `In step ${countText(one.step)} memory peaks at ${bytesText(sum)} after ${peak.at} ` +
    `(${peak.phase}). The largest category there is ${one.categories[most]} with ` +
    `${bytesText(peak.bytes[most])}, ${percentText(shareOf(peak.bytes[most], sum))} of it.`;
}

function bytesAxis(most, label) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(most || 1) / Math.log(1024)));
  const max = most * 1.06 || 1;
  return {min: 0, max, label,
    ticks: roundTicks(0, max / unit, 5).map((v) => [v * unit, bytesText(v * unit)])};
}

function memoryDrawing(one, peak, width) {
  const {points} = one, sums = points.map((point) => total(point.bytes));
  const last = Math.max(1, points.length - 1);
  const area = frame(`Memory over step ${one.step}`, {width, height: 310, head: 16,
    x: {min: 0, max: last, label: 'ops in the order they ran',
      ticks: integerSteps(0, last, width / 110).map((i) => [i, String(i)])},
    y: bytesAxis(rangeOf(sums)[1], 'bytes in use')});
  let below = points.map(() => 0);
  one.categories.forEach((name, i) => {
    const above = points.map((point, p) => below[p] + point.bytes[i]);
    const back = path(below.map((v, p) => [p, v]).reverse(), area.px, area.py).replace('M', 'L');
    if (points.some((point) => point.bytes[i] > 0))
      area.layer.append(s('path', {class: `area category-${i}`,
        d: `${path(above.map((v, p) => [p, v]), area.px, area.py)}${back}Z`}));
    below = above;
  });
  area.layer.append(...phaseMarks(points, area),
    ...peakMark(points.indexOf(peak), sums, peak, area));
  return area;
}

function memoryAt(one, point) {
  const parts = one.categories.map((name, i) => [name, point.bytes[i]])
    .filter(([, bytes]) => bytes > 0).map(([name, bytes]) => `${name} ${bytesText(bytes)}`);
  return `After ${point.at} (${point.phase}): ${bytesText(total(point.bytes))}: ` +
    `${parts.join(', ')}.`;
}

/** Lines between the phases, with their names where they fit. */
function phaseMarks(points, area) {
  const starts = points.map((_, i) => i).filter((i) =>
    i === 0 || points[i - 1].phase !== points[i].phase);
  return starts.map((i, n) => {
    const x = area.px(i), {phase} = points[i];
    const fits = area.px(starts[n + 1] ?? points.length - 1) - x > textWidth(phase, 11) + 8;
    return s('g', {}, i > 0 ?
      s('line', {class: 'phase', x1: x, x2: x, y1: area.top, y2: area.bottom}) : null,
    fits ? s('text', {class: 'small', x: x + 4, y: area.top - 3}, phase) : null);
  });
}

function peakMark(i, sums, peak, area) {
  const x = area.px(i), y = area.py(sums[i]);
  const text = `peak ${bytesText(sums[i])}, ${peak.at}`;
  const toLeft = x + 8 + textWidth(text, 13) > area.right;
  return [s('circle', {class: 'peak', cx: x, cy: y, r: 4}),
    s('text', {class: 'halo', x: toLeft ? x - 8 : x + 8, y: Math.max(area.top + 12, y - 4),
      'text-anchor': toLeft ? 'end' : 'start'}, text)];
}

/** Memory in use after each step, which shows leaks. */
function memoryOverSteps(run, width) {
  const points = run.steps.filter((one) => one.memory > 0).map((one) => [one.step, one.memory]);
  if (points.length < 2) return null;
  const area = frame('Memory in use after each step', {width, height: 170,
    x: stepAxis(points[0][0], points.at(-1)[0], width),
    y: bytesAxis(rangeOf(points.map(([, bytes]) => bytes))[1], 'bytes in use after the step')});
  area.layer.append(s('path', {class: 'line scale', d: path(points, area.px, area.py)}));
  return figureOf('From step to step', area, points.map(([step]) => step), (i) =>
    `After step ${countText(points[i][0])}: ${bytesText(points[i][1])}.`);
}
