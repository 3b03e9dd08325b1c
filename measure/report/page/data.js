// Reads the report's data: decodes, parses the lines and sorts them by run.

/** Returns the text in the page's data element, one JSON object a line. */
async function dataText() {
  const element = document.getElementById('data');
  const body = element.textContent.trim();
  if (element.type !== 'application/gzip+base64') return body;
  if (typeof DecompressionStream === 'undefined')
    throw new Error('This browser cannot decompress the data of this page (it lacks ' +
      'DecompressionStream). Open the page with Firefox 113, Chrome 80, Safari 16.4 or later.');
  const binary = atob(body);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** Returns {objects, cut}: the objects of all lines, and how many lines could not be read. */
function parseLines(text) {
  const objects = [];
  let cut = 0;
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    try {
      objects.push(JSON.parse(line));
    } catch {
      ++cut;
    }
  }
  return {objects, cut};
}

/** Returns a number of the data, which is a string if JSON cannot hold it. */
function toNumber(value) {
  if (typeof value === 'number') return value;
  return {inf: Infinity, '-inf': -Infinity}[value] ?? Number(value ?? NaN);
}

/** Returns {policy, runs, cut}. A run: info, models, steps, samples, casts, graph, memory, end and
 *  findings. */
function buildReport({objects, cut}) {
  const report = {policy: null, runs: [], cut};
  const byNumber = new Map();
  for (const object of objects) {
    if (typeof object?.type !== 'string') continue;
    if (object.type === 'policy') report.policy = object;
    else addToRun(runOf(report, byNumber, object.run ?? 0), object);
  }
  for (const run of report.runs) finishRun(run);
  return report;
}

function runOf(report, byNumber, number) {
  if (!byNumber.has(number)) {
    const run = {number, info: {}, models: [], steps: [], samples: [], casts: [], graph: null,
      memory: [], end: null, findings: [], logs: new Map()};
    byNumber.set(number, run);
    report.runs.push(run);
  }
  return byNumber.get(number);
}

function addToRun(run, object) {
  switch (object.type) {
    case 'run': run.info = object; break;
    case 'model': run.models.push(object); break;
    case 'step': run.steps.push(readStep(object)); break;
    case 'log': readLog(run, object); break;
    case 'sample': run.samples.push(readSample(object)); break;
    case 'casts': run.casts.push({...object, entries: object.entries ?? []}); break;
    case 'graph': run.graph ??= object; break;
    case 'memory': if (object.points?.length > 0) run.memory.push(object); break;
    case 'end': run.end = object; break;
    case 'finding': run.findings.push(object); break;
    default: break;  // of a later version
  }
}

function readStep(object) {
  return {
    ...object,
    losses: (object.losses ?? []).map(toNumber),
    scales: (object.scales ?? []).map(toNumber),
    lrs: (object.lrs ?? []).map(toNumber),
    results: object.results ?? [],
    ms: toNumber(object.ms),
  };
}

/** Adds a number of the program to those of its name: [[step, value]]. */
function readLog(run, {name, step, value}) {
  const series = run.logs.get(name) ?? [];
  series.push([step, toNumber(value)]);
  run.logs.set(name, series);
}

function readSample(object) {
  const rows = (object.rows ?? []).map((row) => ({
    ...row,
    counts: row.counts ?? [],
    lo: row.lo ?? 0,
    max: toNumber(row.max),
    scale: toNumber(row.scale ?? 1) || 1,
  }));
  return {step: object.step, rows};
}

/** Fills in what a damaged file lacks, and what several panels use. */
function finishRun(run) {
  run.info.title ||= `run ${run.number}`;
  run.info.level ||= 'none';
  run.info.group ||= run.info.title;
  run.steps.sort((a, b) => a.step - b.step);
  run.samples.sort((a, b) => a.step - b.step);
  run.parameters = run.models.flatMap((model) => model.parameters ?? []);
  run.modules = run.models.flatMap((model) => model.modules ?? []);
  run.overflows = run.steps.filter(overflowed);
  run.figures = figuresOf(run);
}

function overflowed(step) {
  return Boolean(step.first_nonfinite) || step.results.includes('skipped');
}

/** The figures of a run that the verdict and the comparison of levels show. */
function figuresOf(run) {
  const losses = run.steps.map((step) => step.losses[0]).filter((loss) => loss !== undefined);
  const peaks = [...run.memory.flatMap((one) => one.points.map((point) => total(point.bytes))),
    ...run.steps.map((step) => step.memory ?? 0)];
  return {
    steps: run.steps.length,
    sampled: run.samples.length,
    firstLoss: losses[0] ?? NaN,
    lastLoss: losses.at(-1) ?? NaN,
    skipped: run.steps.filter((step) => step.results.includes('skipped')).length,
    overflows: run.overflows.length,
    scale: run.steps.at(-1)?.scales[0] ?? NaN,
    ms: median(run.steps.filter((step) => !step.sampled).map((step) => step.ms)),
    memory: rangeOf([0, ...peaks])[1] || NaN,
    casts: median(run.steps.map((step) => step.casts ?? NaN)),
    castBytes: median(run.steps.map((step) => step.cast_bytes ?? NaN)),
    parameters: run.parameters.reduce((sum, one) => sum + product(one.shape ?? []), 0),
  };
}

function total(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function product(numbers) {
  return numbers.reduce((result, number) => result * number, 1);
}
