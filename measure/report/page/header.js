// The head of the page: what was run, the choice of the run, and the theme.

const EMULATED = '16-bit products are computed in f32 after conversion on this device. The ' +
  'numbers are those of the level; its times are not those of 16-bit hardware.';

function renderHeader(report, run, choose) {
  const {info} = run;
  document.title = `${info.title}, ${info.level}: precision report`;
  const put = (id, ...content) => show(document.getElementById(id), ...content);
  put('title', info.title, ' ', h('span', {class: 'level'}, levelText(run)));
  put('facts', factsOf(run).map(([name, value]) => h('div', {}, h('dt', {}, name),
    h('dd', {}, value))));
  put('emulated', info.emulated ? `Emulated: ${EMULATED}` : '');
  put('run', report.runs.length > 1 ? runSelector(report, run, choose) : '');
}

function factsOf(run) {
  const {info} = run;
  const options = Object.entries(info.options ?? {}).filter(([, value]) => value !== 'unset');
  return [
    ['16-bit dtype', info.cast_dtype || 'none'],
    ['Loss scale', info.loss_scale == null ? 'none' : numberOrWord(info.loss_scale)],
    ['Hardware', [info.hardware, info.device].filter(Boolean).join(', ') || 'not recorded'],
    ['Sampled steps', sampledText(run)],
    ['Started', dateText(info.started)],
    ['Mezzo', [info.mezzo, info.commit].filter(Boolean).join(', commit ') || 'not recorded'],
    ['Options', options.map((one) => one.join(' ')).join(', ') || 'those of the level'],
  ];
}

/** How many sampled steps the page has, and whether some were left out. */
function sampledText({steps, samples}) {
  const kept = new Set(samples.map((sample) => sample.step));
  const sampled = steps.filter((step) => step.sampled).map((step) => step.step);
  const count = sampled.filter((step) => kept.has(step)).length;
  return count === sampled.length ? String(count) :
    `${count} of ${sampled.length}, so that the page stays small`;
}

function numberOrWord(value) {
  return Number.isNaN(toNumber(value)) ? String(value) : scaleText(toNumber(value));
}

function dateText(text) {
  const date = new Date(text ?? NaN);
  return Number.isNaN(date.getTime()) ? 'not recorded' :
    `${date.toISOString().replace('T', ' ').slice(0, 16)} UTC`;
}

/** The choice of the run, in groups of levels of one net. */
function runSelector({runs}, run, choose) {
  const groups = [...new Set(runs.map((one) => one.info.group))];
  const options = (group) => runs.map((one, i) => one.info.group === group ?
    h('option', {value: i, selected: one === run}, `${one.info.title}, ${levelText(one)}`) : '');
  return h('label', {class: 'field'}, h('span', {}, `Run, ${runs.length} in this file`),
    h('select', {id: 'run-select', change: (event) => choose(Number(event.target.value))},
      groups.map((group) => h('optgroup', {label: group}, options(group)))));
}

/** Adds the button that switches between light and dark; at first the system decides. */
function addThemeSwitch() {
  const system = matchMedia('(prefers-color-scheme: dark)'), root = document.documentElement;
  const flip = button('', () => use(root.dataset.theme !== 'dark'), {id: 'theme'});
  const use = (dark) => {
    root.dataset.theme = dark ? 'dark' : 'light';
    flip.textContent = dark ? 'Light theme' : 'Dark theme';
  };
  use(system.matches);
  system.addEventListener('change', () => use(system.matches));
  document.getElementById('tools').append(flip, button('Print', () => window.print()));
}
