// Panel 9: what each level does to each op.

const policyState = {text: '', tag: '', level: '', action: ''};
const TAG_MEANINGS = {
  low: 'casts its inputs to the 16-bit type', f32: 'casts its inputs to f32',
  promote: 'casts its inputs to the widest of their types', match: 'runs in the type of its inputs',
  banned: 'is refused while casts are active',
};

function renderPolicy(body, {report, run}) {
  const {ops, levels} = report.policy ?? {};
  if (!ops?.length) {
    show(body, missing('This file holds no table of ops; its line of type "policy" is missing.'));
    return;
  }
  const state = policyState, result = h('div'), actions = h('span');
  const tags = [...new Set(ops.map((op) => op.tag))].sort();
  const draw = () => show(result, policyTable(ops, levels, run));
  const list = (label, values, key, changed) => select(label, [['', 'all'], ...values.map((one) =>
    [one, one])], state[key], (value) => (state[key] = value, changed()));
  const arrange = () => {
    const at = levels.indexOf(state.level);
    if (!ops.some((op) => op.levels[at] === state.action)) state.action = '';
    show(actions, at < 0 ? '' :
      list('Inputs', [...new Set(ops.map((op) => op.levels[at]))].sort(), 'action', draw));
    draw();
  };
  const search = h('input', {type: 'search', value: state.text, placeholder: 'op or summary',
    input: (event) => (state.text = event.target.value, draw())});
  show(body, h('div', {class: 'controls'},
    h('label', {class: 'field'}, h('span', {}, 'Search'), search), list('Tag', tags, 'tag', draw),
    list('Level', levels, 'level', arrange), actions),
  h('dl', {class: 'tags'}, tags.map((tag) => h('div', {}, h('dt', {}, tag),
    h('dd', {}, TAG_MEANINGS[tag])))), result);
  arrange();
}

function policyTable(ops, levels, run) {
  const {text, tag, level, action} = policyState;
  const shown = level ? [level] : levels;
  const at = (op, one) => op.levels[levels.indexOf(one)];
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = ops.filter((op) => (!tag || op.tag === tag) &&
    (!action || at(op, level) === action) &&
    words.every((word) => `${op.name} ${op.summary}`.toLowerCase().includes(word)));
  const used = new Set((run.graph?.ops ?? []).map((op) => op.op));
  const cell = (value) => h('span', {class: `action dtype-${value}`}, value);
  return [h('p', {class: 'count', role: 'status'}, `${countText(rows.length)} of ` +
    plural(ops.length, 'op') + (used.size > 0 ? '; ops that this run used are bold' : '')),
  h('div', {class: 'tall-table'}, table('Ops and what the levels do to their inputs',
    ['Op', 'Tag', ...shown, 'Summary'], rows.map((op) =>
      [used.has(op.name) ? h('strong', {}, op.name) : op.name, op.tag,
        ...shown.map((one) => cell(at(op, one))), op.summary ?? ''])))];
}
