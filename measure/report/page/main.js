// Builds the page when its data is read.

const PANELS = [
  ['Training', renderTraining], ['Verdict', renderVerdict],
  ['Where the numbers live', renderNumbers],
  ['Loss scale', renderScale], ['Updates beside their weights', renderRatio],
  ['The model', renderModel], ['Memory over a step', renderMemory],
  ['Levels side by side', renderLevels], ['Policy', renderPolicy],
  ['Number explorer', renderExplorer], ['Lesson', renderLesson],
];
const DRAWN = [1, 3, 4, 5, 6, 7, 8];  // panels whose drawings fit the width of the page

/** Makes the sections and the links to them. Returns their bodies. */
function makePanels() {
  const bodies = PANELS.map(() => h('div', {class: 'body'}));
  show(document.getElementById('panels'), PANELS.map(([title], i) =>
    h('section', {id: `panel-${i + 1}`, 'aria-labelledby': `heading-${i + 1}`},
      h('h2', {id: `heading-${i + 1}`}, h('span', {class: 'index'}, `${i + 1} `), title),
      bodies[i])));
  show(document.getElementById('contents'), h('ol', {}, PANELS.map(([title], i) =>
    h('li', {}, h('a', {href: `#panel-${i + 1}`}, title)))));
  return bodies;
}

function render(report, run, bodies, numbers) {
  const width = Math.max(560, Math.min(1160, Math.floor(bodies[0].getBoundingClientRect().width)));
  for (const number of numbers) PANELS[number - 1][1](bodies[number - 1], {report, run, width});
}

function start(report) {
  if (report.runs.length === 0)
    throw new Error('The file holds no run: amp::Report did not write it.');
  const bodies = makePanels();
  const every = PANELS.map((_, i) => i + 1);
  let current = report.runs[0];
  const choose = (i) => {
    current = report.runs[i];
    renderHeader(report, current, choose);
    render(report, current, bodies, every);
    document.getElementById('run-select')?.focus();
  };
  renderHeader(report, current, choose);
  addThemeSwitch();
  render(report, current, bodies, every);
  let shown = innerWidth, timer = 0;
  addEventListener('resize', () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (Math.abs(innerWidth - shown) < 20) return;
      shown = innerWidth;
      render(report, current, bodies, DRAWN);
    }, 150);
  });
}

/** What tests and the curious call; `ready` is kept when the page is complete. */
window.report = {
  formats: FORMATS, encode, decode, roundTo, neighbours, addRounded, parseNumber, zoneCounts,
  totalCounts, ratioShare, lessonQuestions, data: null,
};
window.report.ready = dataText().then((text) => {
  window.report.data = buildReport(parseLines(text));
  start(window.report.data);
}).catch((error) => {
  show(document.getElementById('panels'), h('p', {class: 'error', role: 'alert'}, error.message));
  window.report.failed = error.message;
});
