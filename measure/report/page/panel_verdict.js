// Panel 2: the findings as sentences, and the key figures of the run.

const SEVERITIES = {problem: 'Problem', hint: 'Hint', good: 'Good'};
const KIND_TITLES = {
  underflow: 'gradients become zero', overflow: 'numbers overflow',
  lost_update: 'updates are lost', wrong_tag: 'an op in the wrong precision',
  fine_in_f16: 'fits f16', needs_bf16: 'needs the range of bf16', healthy: 'healthy',
  truncated: 'the run is incomplete', bad_loss: 'the loss is not finite',
};

function renderVerdict(body, {run, report}) {
  const order = Object.keys(SEVERITIES);
  const findings = [...run.findings].sort((a, b) =>
    order.indexOf(a.severity) - order.indexOf(b.severity));
  const notes = completenessNotes(run, report);
  show(body, notes.map((note) => h('p', {class: 'note'}, note)),
    h('div', {class: 'columns'}, findings.length > 0 ?
      h('ul', {class: 'findings'}, findings.map(findingNode)) :
      missing('This file holds no findings for the run. They are added when the page is made.'),
    table('Key figures', ['Figure', 'Value'], keyFigures(run), [1])));
}

/** One sentence on what was trained and how it went. */
function summaryOf(run) {
  const {info, figures} = run;
  if (figures.steps === 0) return `${info.title} at ${levelText(run)}: no step was recorded.`;
  const loss = Number.isFinite(figures.firstLoss) || Number.isFinite(figures.lastLoss) ?
    ` The loss went from ${numberText(figures.firstLoss)} to ${numberText(figures.lastLoss)}.` : '';
  const skipped = figures.skipped === 0 ? ' No step was skipped.' :
    ` ${countText(figures.skipped)} of ${plural(figures.steps, 'step')} were skipped because a ` +
    'gradient overflowed.';
  return `${info.title} at ${levelText(run)}: ${plural(figures.steps, 'step')}, ` +
    `${countText(figures.sampled)} of them with histograms.${loss}${skipped}`;
}

function levelText(run) {
  return run.info.level === 'none' ? 'no level (plain f32)' : `level ${run.info.level}`;
}

/** What the file lacks, in words. */
function completenessNotes(run, report) {
  const last = run.steps.at(-1), notes = [];
  if (!run.end) notes.push('The run did not end properly: the file ' + (last ?
    `stops after step ${countText(last.step)}. Everything up to there is shown.` :
    'holds no complete step.'));
  else if (run.end.complete === false)
    notes.push(`The run stopped early, after ${plural(run.steps.length, 'step')}.`);
  if (report.cut > 0) notes.push(`${plural(report.cut, 'line')} of the file could not be read ` +
    'and was left out. This happens when a run is killed while it writes.');
  return notes;
}

/** The text of a finding with 2^12 as 2¹², and no line break before a percent sign. */
function prettyText(text) {
  return String(text ?? '').replace(/\b2\^(-?\d+)/g, (_, e) => power2(e))
    .replaceAll(' %', '\u00a0%');
}

function findingNode(finding) {
  const severity = finding.severity in SEVERITIES ? finding.severity : 'hint';
  const advice = [];
  if (finding.level) advice.push(`level ${finding.level}`);
  if (finding.loss_scale) advice.push(`loss scale ${scaleText(toNumber(finding.loss_scale))}`);
  return h('li', {class: `finding ${severity}`},
    h('p', {class: 'finding-head'}, h('strong', {}, SEVERITIES[severity]), ' ',
      KIND_TITLES[finding.kind] ?? finding.kind),
    h('p', {}, prettyText(finding.text)),
    advice.length > 0 ? h('p', {class: 'advice'}, `Suggested: ${advice.join(', ')}`) : null,
    finding.names?.length > 0 ? h('p', {class: 'names'}, finding.names.slice(0, 8).join(', ') +
      (finding.names.length > 8 ? ` and ${finding.names.length - 8} more` : '')) : null);
}

function keyFigures({figures, info, casts, end, parameters}) {
  const sum = (key) => total(casts.flatMap((one) => one.entries.map((entry) => entry[key] ?? 0)));
  const part = (key) => `${countText(sum(key))} of ${countText(sum('elements'))}`;
  return [
    ['Steps', countText(figures.steps)],
    ['Steps with histograms', countText(figures.sampled) +
      (info.every > 1 ? `, one in ${info.every} and overflows` : '')],
    ['Loss, first and last', `${numberText(figures.firstLoss)}, ${numberText(figures.lastLoss)}`],
    ['Skipped steps', countText(figures.skipped)],
    ['Loss scale at the end', scaleText(figures.scale)],
    ['Time per step, median of unsampled steps', msText(figures.ms)],
    ['Peak memory', bytesText(figures.memory)],
    ['Casts per step', `${countText(figures.casts)}, ${bytesText(figures.castBytes)}`],
    ['Elements that sampled casts flushed to zero', part('flushed')],
    ['Elements that sampled casts overflowed', part('overflowed')],
    ['Parameters', `${countText(figures.parameters)} in ${plural(parameters.length, 'tensor')}`],
    ['Whole run', msText(1000 * toNumber(end?.seconds))]];
}
