// Panel 8: what each level does to each op.

const policyState = {text: '', tag: '', level: '', action: ''};
const TAG_MEANINGS = {
  low: 'casts its inputs to the 16-bit type', f32: 'casts its inputs to f32',
  promote: 'casts its inputs to the widest of their types', match: 'runs in the type of its inputs',
  banned: 'is refused while casts are active',
};

function renderPolicy(body, {report, run}) {
  if (!report.policy?.ops?.length) {
    show(body, missing('This file holds no table of ops; its line of type "policy" is missing.'));
    return;
  }
  const {ops, levels} = report.policy;
  const tags = [...new Set(ops.map((op) => op.tag))].sort();
  const result = h('div'), actions = h('span');
  const draw = () => show(result, policyTable(ops, levels, run));
  const arrange = () => {
    show(actions, policyState.level ? select('Runs in', [['', 'all'], ...actionsAt(ops, levels)],
      policyState.action, (value) => (policyState.action = value, draw())) : '');
    draw();
  };
  show(body, h('div', {class: 'controls'},
    h('label', {class: 'field'}, h('span', {}, 'Search'), h('input', {type: 'search', value: policyState.text,
      placeholder: 'op or summary', input: (event) => (policyState.text = event.target.value, draw())})),
    select('Tag', [['', 'all'], ...tags.map((tag) => [tag, tag])], policyState.tag, (tag) =>
      (policyState.tag = tag, draw())),
    select('Level', [['', 'all'], ...levels.map((level) => [level, level])], policyState.level, (level) => {
      Object.assign(policyState, {level, action: ''});
      arrange();
    }), actions), h('dl', {class: 'tags'}, tags.map((tag) => h('div', {}, h('dt', {}, tag),
    h('dd', {}, TAG_MEANINGS[tag] ?? '')))), result);
  arrange();
}

function actionsAt(ops, levels) {
  const at = levels.indexOf(policyState.level);
  return [...new Set(ops.map((op) => op.levels[at]))].sort().map((action) => [action, action]);
}

function policyTable(ops, levels, run) {
  const {text, tag, level, action} = policyState;
  const shown = level ? [level] : levels;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = ops.filter((op) => (!tag || op.tag === tag) &&
    (!action || op.levels[levels.indexOf(level)] === action) &&
    words.every((word) => `${op.name} ${op.summary ?? ''}`.toLowerCase().includes(word)));
  const used = new Set((run.graph?.ops ?? []).map((op) => op.op));
  return [h('p', {class: 'count', role: 'status'}, `${countText(rows.length)} of ${plural(ops.length, 'op')}` +
    (used.size > 0 ? '; ops that this run used are bold' : '')),
  h('div', {class: 'tall-table'}, table('Ops and what the levels do to them', ['Op', 'Tag', ...shown, 'Summary'],
    rows.map((op) => [used.has(op.name) ? h('strong', {}, op.name) : op.name, op.tag,
      ...shown.map((one) => actionCell(op.levels[levels.indexOf(one)])), op.summary ?? ''])))];
}

function actionCell(action) {
  return h('span', {class: `action dtype-${action}`}, action);
}
