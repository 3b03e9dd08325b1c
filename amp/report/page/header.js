// The head of the page: what was run, the choice of the run, and the theme.

const EMULATED = 'this level’s 16-bit products are computed in f32 after conversion on this device. The numbers ' +
  'are those of the level, its times are not those of 16-bit hardware.';

function renderHeader(report, run, choose) {
  const {info} = run;
  document.title = `${info.title}, ${info.level}: precision report`;
  show(document.getElementById('title'), info.title, ' ', h('span', {class: 'level'}, levelText(run)));
  show(document.getElementById('facts'), factsOf(run).map(([name, value]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, value))));
  show(document.getElementById('emulated'), info.emulated ? `Emulated: ${EMULATED}` : '');
  show(document.getElementById('run'), report.runs.length > 1 ? runSelector(report, run, choose) : '');
}

function factsOf(run) {
  const {info} = run;
  const options = Object.entries(info.options ?? {}).filter(([, value]) => value !== 'unset');
  return [
    ['Level', `${levelText(run)}${info.cast_dtype ? `, 16-bit dtype ${info.cast_dtype}` : ''}`],
    ['Loss scale', info.loss_scale === undefined ? 'none' : numberOrWord(info.loss_scale)],
    ['Hardware', [info.hardware, info.device].filter(Boolean).join(', ') || 'not recorded'],
    ['Started', dateText(info.started)],
    ['Mezzo', [info.mezzo, info.commit].filter(Boolean).join(', commit ') || 'not recorded'],
    ['Options', options.map(([name, value]) => `${name} ${value}`).join(', ') || 'those of the level'],
  ];
}

function numberOrWord(value) {
  return typeof value === 'string' && Number.isNaN(toNumber(value)) ? value : scaleText(toNumber(value));
}

function dateText(text) {
  const date = new Date(text ?? NaN);
  return Number.isNaN(date.getTime()) ? 'not recorded' : date.toISOString().replace('T', ' ').slice(0, 16) + ' UTC';
}

/** The choice of the run, in groups of levels of one net. */
function runSelector(report, run, choose) {
  const groups = [...new Set(report.runs.map((one) => one.info.group))];
  return h('label', {class: 'field'}, h('span', {}, `Run, ${report.runs.length} in this file`),
    h('select', {id: 'run-select', change: (event) => choose(Number(event.target.value))}, groups.map((group) =>
      h('optgroup', {label: group}, report.runs.map((one, i) => [one, i]).filter(([one]) =>
        one.info.group === group).map(([one, i]) => h('option', {value: i, selected: one === run},
        `${one.info.title}, ${one.info.level}`))))));
}

/** Adds the button that switches between light and dark. */
function addThemeSwitch() {
  const dark = () => document.documentElement.dataset.theme === 'dark' ||
    (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
  const name = () => (dark() ? 'Light theme' : 'Dark theme');
  const flip = button(name(), () => {
    document.documentElement.dataset.theme = dark() ? 'light' : 'dark';
    flip.textContent = name();
  }, {id: 'theme'});
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => (flip.textContent = name()));
  document.getElementById('tools').append(flip, button('Print', () => window.print()));
}
