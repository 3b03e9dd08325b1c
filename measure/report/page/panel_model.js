// Panel 6: the model as a tree of modules, its ops as a graph, and the casts between them.

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
    run.graph?.ops?.length > 0 ? opGraph(run.graph, casts) :
      missing('This run holds no graph of ops: no forward pass was sampled.'), castTable(casts));
}

function modelSentence(run, casts) {
  const sum = (key) => total(casts.entries.map((one) => one[key] ?? 0));
  const made = casts ? `In step ${countText(casts.step)}, ${plural(sum('count'), 'cast')} wrote ` +
    `${bytesText(sum('bytes'))}; ${countText(sum('cache_hits'))} more came from the cache.` :
    'No casts were recorded.';
  return `${plural(run.modules.length, 'module')}, ` +
    `${plural(run.parameters.length, 'parameter tensor')}, ` +
    `${plural(run.graph?.ops?.length ?? 0, 'op')} in the forward pass. ${made}`;
}

// ---- modules ------------------------------------------------------------------------------------

function moduleTree(run) {
  if (run.modules.length === 0) {
    const names = run.parameters.map((one) => one.name).join(', ');
    return missing(`No modules were named in this run. Parameters: ${names || 'none'}.`);
  }
  const roots = [], nodes = new Map();
  for (const model of run.models)
    for (const one of model.modules ?? []) {
      const path = [model.name, one.path].filter(Boolean).join('.');
      const node = {...one, path, model, children: []};
      (parentOf(nodes, path)?.children ?? roots).push(node);
      nodes.set(path, node);
    }
  return h('details', {class: 'tree', open: run.modules.length <= 12},
    h('summary', {}, 'Modules and their parameters'), h('ul', {}, roots.map(moduleNode)));
}

/** Returns the module that a path lies in, the one with the longest prefix, or undefined. */
function parentOf(nodes, path) {
  for (let at = path.lastIndexOf('.'); at > 0; at = path.lastIndexOf('.', at - 1))
    if (nodes.has(path.slice(0, at))) return nodes.get(path.slice(0, at));
  return path === '' ? undefined : nodes.get('');
}

function moduleNode(node) {
  const own = node.model.parameters?.filter((one) =>
    one.module === node.path && one.name) ?? [];
  return h('li', {}, h('span', {class: 'module'}, node.path || '(model)'), ` ${node.type}`,
    own.map((one) => h('span', {class: `chip dtype-${one.dtype}`, title: one.name},
      `${one.name.split('.').at(-1)} ${one.dtype} ${shapeText(one.shape)}` +
      (one.master ? ' + f32 master' : ''))),
    node.children.length > 0 ? h('ul', {}, node.children.map(moduleNode)) : null);
}

// ---- ops ----------------------------------------------------------------------------------------

const ROW = 20, LANE = 9, INDENT = 12, HEAD = 26;  // px
const GRAPH_HEADS = ['tag', 'result', 'casts for this op', 'parameters and inputs'];

/** Returns the rows of the drawing: a row for each op, and one for each module that it enters. */
function graphRows(ops) {
  const rows = [];
  let stack = [];
  ops.forEach((op, index) => {
    const parts = op.module ? op.module.split('.') : [];
    let same = 0;
    while (same < parts.length && parts[same] === stack[same]) ++same;
    // a chain of new names is one row
    if (same < parts.length) rows.push({module: parts.slice(same).join('.'), depth: same});
    rows.push({op, index, depth: parts.length});
    stack = parts;
  });
  return rows;
}

/** Returns the edges between ops with a lane each: 0 for neighbours, else the lowest free one. */
function graphEdges(ops) {
  const seen = new Set(), ends = [];  // ends: where the last edge of a lane ends
  return ops.flatMap((op, to) => (op.in ?? []).filter((one) => one.from >= 0).map((one) =>
    ({from: one.from, to, dtype: ops[one.from]?.out?.[0]?.dtype ?? one.dtype, lane: 0})))
    .filter(({from, to}) => !seen.has(`${from} ${to}`) && seen.add(`${from} ${to}`))
    .map((edge) => {
      if (edge.to === edge.from + 1) return edge;
      let lane = ends.findIndex((end) => end <= edge.from);
      if (lane < 0) lane = Math.min(ends.length, 11);
      ends[lane] = edge.to;
      return {...edge, lane: lane + 1};
    });
}

function opGraph({ops, step}, casts) {
  const rows = graphRows(ops), edges = graphEdges(ops);
  const texts = rows.map(({op, index}) => op ? opTexts(op, castsOf(casts, op, index, ops)) : null);
  const gutter = 14 + LANE * rangeOf([1, ...edges.map((edge) => edge.lane)])[1];
  const names = 16 + rangeOf(rows.map((row) =>
    row.depth * INDENT + textWidth(row.op?.op ?? row.module)))[1];
  const widths = GRAPH_HEADS.map((head, i) =>
    18 + widest([head, ...texts.filter(Boolean).map((one) => one[i])]));
  const starts = widths.map((_, i) => gutter + names + total(widths.slice(0, i)));
  const width = gutter + names + total(widths), height = HEAD + rows.length * ROW;
  const yOf = [];
  rows.forEach(({op, index}, i) => op && (yOf[index] = HEAD + (i + 0.5) * ROW));
  const svg = s('svg', {class: 'chart graph', viewBox: `0 0 ${width} ${height}`, width, height,
    role: 'img', 'aria-label': `The ${ops.length} ops of the forward pass and their dtypes`},
  s('text', {class: 'small', x: gutter, y: 14}, 'op'),
  GRAPH_HEADS.map((head, i) => s('text', {class: 'small', x: starts[i], y: 14}, head)),
  edges.map((edge) => edgePath(edge, gutter - 6, yOf)),
  rows.map((row, i) => graphRow(row, texts[i], HEAD + i * ROW, gutter, starts)));
  const used = [...new Set(ops.flatMap((op) => (op.out ?? []).map((one) => one.dtype)))];
  return h('figure', {}, h('figcaption', {}, `Ops of the forward pass of step ${countText(step)}` +
    ', from first to last; a line leads from an op to each op that reads its result'),
  legend([...used.map((dtype) => [`line-key dtype-${dtype}`, dtype]), ['node-key', 'op'],
    ['cast-key', 'cast (op “to”)']]),
  h('div', {class: 'scroll tall', tabindex: 0, role: 'region', 'aria-label': 'Graph of ops'}, svg));
}

/** The texts beside an op, as GRAPH_HEADS names them. */
function opTexts(op, casts) {
  const tensors = (list) => list.map((one) => [one.label, one.dtype, shapeText(one.shape)]
    .filter(Boolean).join(' ')).join(', ');
  const given = (op.in ?? []).filter((one) => one.from < 0).map((one) =>
    ({...one, label: ownName(one.name, op.module)}));
  const named = given.filter((one) => one.name), inputs = given.filter((one) => !one.name);
  const operands = inputs.length > 2 ?
    [tensors(named), plural(inputs.length, 'input')].filter(Boolean).join(', ') : tensors(given);
  return [op.tag ?? '', tensors(op.out ?? []), casts.map(castText).join('; '), operands];
}

/** The name of an operand, without the module that its row stands in. */
function ownName(name, module) {
  if (!name) return 'input';
  return module && name.startsWith(`${module}.`) ? name.slice(module.length + 1) : name;
}

function castText(one) {
  const lost = [one.flushed > 0 ? `${countText(one.flushed)} became zero` : '',
    one.overflowed > 0 ? `${countText(one.overflowed)} overflowed` : ''].filter(Boolean);
  const count = one.count === 1 ? 'once' : `${countText(one.count)} times`;
  return `${one.direction === 'backward' ? 'backward ' : ''}${one.from} to ${one.to}: ` +
    [count, bytesText(one.bytes), ...lost].join(', ');
}

/** The casts of a module's op; of several calls of it, the first is given all. */
function castsOf(casts, op, index, ops) {
  const same = (one) => one.op === op.op && (one.module ?? '') === (op.module ?? '');
  return ops.findIndex(same) === index ? (casts?.entries ?? []).filter(same) : [];
}

function edgePath({from, to, lane, dtype}, x, yOf) {
  const a = yOf[from], b = yOf[to], left = x - lane * LANE;
  if (a === undefined || b === undefined) return null;
  const d = lane === 0 ? `M${x} ${a}V${b}` : `M${x} ${a}C${left} ${a} ${left} ${a + 4} ` +
    `${left} ${a + 12}V${b - 12}C${left} ${b - 4} ${left} ${b} ${x} ${b}`;
  return s('path', {class: `edge dtype-${dtype}`, d});
}

function graphRow({op, module, depth}, texts, y, gutter, starts) {
  const base = y + ROW / 2 + 4, x = gutter + depth * INDENT;
  if (!op) return s('text', {class: 'module', x, y: base}, module);
  const dtype = `dtype-${op.out?.[0]?.dtype}`, cx = gutter - 6, cy = y + ROW / 2;
  const node = op.op === 'to' ?
    s('path', {class: `node ${dtype}`, d: `M${cx - 5} ${cy}l5 -5l5 5l-5 5z`}) :
    s('circle', {class: `node ${dtype}`, cx, cy, r: 4});
  return [node, s('text', {x: x + 4, y: base}, op.op), texts.map((text, i) => text && s('text',
    {class: ['tag', `${dtype} value`, 'small', 'small'][i], x: starts[i], y: base}, text))];
}

function castTable(casts) {
  if (!casts || casts.entries.length === 0)
    return missing('No casts were recorded. Without casts around ops (levels O0, O2, O3 and O5, ' +
      'or no session) an op runs in the dtypes it is given.');
  const rows = casts.entries.map((one) => [one.module || '(outside modules)', one.op,
    one.tag ?? '', one.direction, `${one.from} to ${one.to}`, countText(one.count),
    countText(one.cache_hits ?? 0),
    countText(one.elements), bytesText(one.bytes), countText(one.overflowed ?? 0),
    countText(one.flushed ?? 0)]);
  return h('details', {open: rows.length <= 12}, h('summary', {}, 'All casts of the step'),
    table(`Casts of step ${countText(casts.step)}`, ['Module', 'Op', 'Tag', 'Direction', 'Cast',
      'Count', 'From cache', 'Elements', 'Bytes', 'Overflowed', 'Flushed to zero'], rows,
    [5, 6, 7, 8, 9, 10]));
}
