// Panel 5: the model as a tree of modules, its ops as a graph, and the casts between them.

const modelState = {step: 0};

function renderModel(body, {run, width}) {
  const casts = run.casts[Math.min(modelState.step, run.casts.length - 1)] ?? null;
  const picker = run.casts.length > 1 ? select('Casts of step', run.casts.map((one, i) =>
    [i, countText(one.step)]), run.casts.indexOf(casts), (i) => {
    modelState.step = Number(i);
    renderModel(body, {run, width});
    body.querySelector('select').focus();
  }) : null;
  show(body, h('p', {class: 'summary'}, modelSentence(run, casts)),
    picker && h('div', {class: 'controls'}, picker), moduleTree(run),
    run.graph?.ops?.length > 0 ? opGraph(run, casts, width) :
      missing('This run holds no graph of ops: no forward pass was sampled.'),
    castTable(casts));
}

function modelSentence(run, casts) {
  const ops = run.graph?.ops?.length ?? 0;
  const entries = casts?.entries ?? [];
  const count = total(entries.map((one) => one.count));
  const bytes = total(entries.map((one) => one.bytes));
  const made = casts ? `In step ${countText(casts.step)}, ${plural(count, 'cast')} wrote ${bytesText(bytes)}; ` +
    `${countText(total(entries.map((one) => one.cache_hits ?? 0)))} further casts were taken from the cache.` :
    'No casts were recorded.';
  return `${plural(run.modules.length, 'module')}, ${plural(run.parameters.length, 'parameter tensor')}, ` +
    `${plural(ops, 'op')} in the forward pass. ${made}`;
}

// ---- modules ------------------------------------------------------------------------------------

function moduleTree(run) {
  if (run.modules.length === 0)
    return missing(run.parameters.length > 0 ? `No modules were named; the parameters are ${
      run.parameters.map((one) => one.name).join(', ')}.` : 'No modules were named in this run.');
  const roots = [];
  const nodes = new Map();
  for (const model of run.models)
    for (const one of model.modules ?? []) {
      const path = model.name && one.path ? `${model.name}.${one.path}` : model.name || one.path;
      const node = {...one, path, model, children: []};
      nodes.set(path, node);
      (parentOf(nodes, path)?.children ?? roots).push(node);
    }
  return h('details', {class: 'tree', open: run.modules.length <= 12}, h('summary', {}, 'Modules and their ' +
    'parameters'), h('ul', {}, roots.map((node) => moduleNode(node, run))));
}

/** Returns the module that a path lies in, or undefined: the one with the longest prefix. */
function parentOf(nodes, path) {
  for (let at = path.lastIndexOf('.'); at > 0; at = path.lastIndexOf('.', at - 1))
    if (nodes.has(path.slice(0, at))) return nodes.get(path.slice(0, at));
  return path === '' ? undefined : nodes.get('');
}

function moduleNode(node, run) {
  const own = node.model.parameters?.filter((one) => one.module === node.path) ?? [];
  return h('li', {}, h('span', {class: 'module'}, node.path || '(model)'), ` ${node.type}`,
    own.map((one) => h('span', {class: `chip dtype-${one.dtype}`, title: one.name},
      `${one.name.split('.').at(-1)} ${one.dtype} ${shapeText(one.shape)}${one.master ? ' + f32 master' : ''}`)),
    node.children.length > 0 ? h('ul', {}, node.children.map((child) => moduleNode(child, run))) : null);
}

// ---- ops ----------------------------------------------------------------------------------------

const ROW = 20, LANE = 9;

/** Returns the rows of the drawing: a row for each op, and one for each module that it enters. */
function graphRows(ops) {
  const rows = [];
  let stack = [];
  ops.forEach((op, index) => {
    const parts = op.module ? op.module.split('.') : [];
    let same = 0;
    while (same < parts.length && same < stack.length && parts[same] === stack[same]) ++same;
    // a chain of new names is one row
    if (same < parts.length) rows.push({module: parts.slice(same).join('.'), depth: same});
    rows.push({op, index, depth: parts.length});
    stack = parts;
  });
  return rows;
}

/** Returns the edges between ops with a lane each: 0 for neighbours, else the lowest that is free. */
function graphEdges(ops) {
  const edges = ops.flatMap((op, to) => (op.in ?? []).filter((one) => one.from >= 0).map((one) =>
    ({from: one.from, to, dtype: ops[one.from]?.out?.[0]?.dtype ?? one.dtype, lane: 0})));
  const seen = new Set(), lanes = [];
  return edges.filter((edge) => {
    const key = `${edge.from} ${edge.to}`;
    return !seen.has(key) && seen.add(key);
  }).map((edge) => {
    if (edge.to === edge.from + 1) return edge;
    let lane = lanes.findIndex((end) => end <= edge.from);
    if (lane < 0) lane = lanes.length < 12 ? lanes.length : 11;
    lanes[lane] = edge.to;
    return {...edge, lane: lane + 1};
  });
}

function opGraph(run, casts, width) {
  const ops = run.graph.ops;
  const rows = graphRows(ops), edges = graphEdges(ops);
  const texts = rows.map((row) => row.op ? opTexts(row.op, castsOf(casts, row.op, row.index, ops)) : null);
  const gutter = 14 + LANE * Math.max(1, ...edges.map((edge) => edge.lane));
  const names = Math.max(...rows.map((row) => row.depth * 12 + textWidth(row.op?.op ?? row.module))) + 16;
  const heads = ['rule', 'result', 'casts for this op', 'parameters and inputs'];
  const widths = heads.map((head, i) => Math.max(textWidth(head),
    ...texts.filter(Boolean).map((one) => widest([one[i]]))) + 18);
  const starts = widths.map((_, i) => gutter + names + total(widths.slice(0, i)));
  const size = {width: Math.max(gutter + names + total(widths), 300), height: 26 + rows.length * ROW};
  const yOf = [];
  rows.forEach((row, i) => row.op && (yOf[row.index] = 26 + i * ROW + ROW / 2));
  const svg = s('svg', {class: 'chart graph', viewBox: `0 0 ${size.width} ${size.height}`, ...size, role: 'img',
    'aria-label': `The ${ops.length} ops of the forward pass in order, with the dtypes of their results`},
  s('text', {class: 'small', x: gutter, y: 14}, 'op'),
  heads.map((head, i) => s('text', {class: 'small', x: starts[i], y: 14}, head)),
  edges.map((edge) => edgePath(edge, gutter - 6, yOf)),
  rows.map((row, i) => graphRow(row, texts[i], 26 + i * ROW, gutter, starts)));
  return h('figure', {}, h('figcaption', {}, `Ops of the forward pass of step ${countText(run.graph.step)}, ` +
    'from first to last; a line leads from an op to each op that reads its result'), dtypeLegend(run),
  h('div', {class: 'scroll tall', tabindex: 0, role: 'region', 'aria-label': 'Graph of ops'}, svg));
}

/** The texts beside an op: rule, result, casts, parameters and inputs. */
function opTexts(op, casts) {
  const result = (op.out ?? []).map((one) => `${one.dtype} ${shapeText(one.shape)}`).join(', ');
  const given = (op.in ?? []).filter((one) => one.from < 0).map((one) =>
    `${ownName(one.name, op.module)} ${one.dtype} ${shapeText(one.shape)}`).join(', ');
  return [op.tag ?? '', result, casts.map(castText).join('; '), given];
}

/** The name of an operand, without the module that its row stands in. */
function ownName(name, module) {
  if (!name) return 'input';
  return module && name.startsWith(`${module}.`) ? name.slice(module.length + 1) : name;
}

function castText(one) {
  const lost = [one.flushed > 0 ? `${countText(one.flushed)} became zero` : '',
    one.overflowed > 0 ? `${countText(one.overflowed)} overflowed` : ''].filter(Boolean);
  return `${one.direction === 'backward' ? 'backward ' : ''}${one.from} to ${one.to}: ` +
    [one.count === 1 ? 'once' : `${countText(one.count)} times`, bytesText(one.bytes), ...lost].join(', ');
}

/** The casts of a module's op; of several calls of it, the first is given all. */
function castsOf(casts, op, index, ops) {
  const same = (one) => one.op === op.op && (one.module ?? '') === (op.module ?? '');
  return ops.findIndex(same) === index ? (casts?.entries ?? []).filter(same) : [];
}

function edgePath(edge, x, yOf) {
  const [y1, y2] = [yOf[edge.from], yOf[edge.to]];
  if (y1 === undefined || y2 === undefined) return null;
  const left = x - edge.lane * LANE;
  const d = edge.lane === 0 ? `M${x} ${y1}V${y2}` :
    `M${x} ${y1}C${left} ${y1} ${left} ${y1 + 4} ${left} ${y1 + 12}V${y2 - 12}C${left} ${y2 - 4} ${left} ${y2} ${x} ${y2}`;
  return s('path', {class: `edge dtype-${edge.dtype}`, d});
}

function graphRow(row, texts, y, gutter, starts) {
  const base = y + ROW / 2 + 4;
  if (!row.op) return s('text', {class: 'module', x: gutter + row.depth * 12, y: base}, row.module);
  const dtype = row.op.out?.[0]?.dtype;
  const cx = gutter - 6, cy = y + ROW / 2;
  const node = row.op.op === 'to' ?
    s('path', {class: `node dtype-${dtype}`, d: `M${cx - 5} ${cy}l5 -5l5 5l-5 5z`}) :
    s('circle', {class: `node dtype-${dtype}`, cx, cy, r: 4});
  return s('g', {}, node, s('text', {x: gutter + 4 + row.depth * 12, y: base}, row.op.op),
    texts.map((text, i) => s('text', {class: ['tag', `dtype-${dtype} value`, 'small', 'small'][i], x: starts[i],
      y: base}, text)));
}

function dtypeLegend(run) {
  const used = [...new Set(run.graph.ops.flatMap((op) => (op.out ?? []).map((one) => one.dtype)))];
  return legend([...used.map((dtype) => [`line-key dtype-${dtype}`, dtype]), ['node-key', 'op'],
    ['cast-key', 'cast (op “to”)']]);
}

function castTable(casts) {
  if (!casts || casts.entries.length === 0)
    return missing('No casts were recorded: at levels O0 and O3, or without a session, ops run in the ' +
      'dtypes they are given.');
  const rows = casts.entries.map((one) => [moduleText(one.module), one.op, one.rule ?? '', one.direction,
    `${one.from} to ${one.to}`, countText(one.count), countText(one.cache_hits ?? 0), countText(one.elements),
    bytesText(one.bytes), countText(one.overflowed ?? 0), countText(one.flushed ?? 0)]);
  return h('details', {open: rows.length <= 12}, h('summary', {}, `All casts of step ${countText(casts.step)}`),
    table('Casts', ['Module', 'Op', 'Rule', 'Direction', 'Cast', 'Count', 'From cache', 'Elements', 'Bytes',
      'Overflowed', 'Flushed to zero'], rows, [5, 6, 7, 8, 9, 10]));
}
