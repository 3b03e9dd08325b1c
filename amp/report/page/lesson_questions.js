// The questions of the lesson, made from the figures of a run. No access to the page.

/** A question: text, options (texts), the index of the right one, and why. */
function question(text, options, right, why) {
  return {text, options, right, why};
}

/** Returns a question whose options are numbers in ascending order. */
function numberQuestion(text, right, others, show, why) {
  const values = [...new Set([right, ...others])].slice(0, 4).sort((a, b) => a - b);
  return question(text, values.map(show), values.indexOf(right), why);
}

/** Questions on shares take tensors with at least so many non-zero elements. */
const LEAST = 20;
const SHARE_STEPS = [0.001, 0.1, 0.5, 1.01];
const SHARE_TEXTS = ['almost none (less than 0.1 %)', 'some (0.1 to 10 %)', 'many (10 to 50 %)', 'half or more'];

function shareQuestion(text, share, why) {
  return question(text, SHARE_TEXTS, SHARE_STEPS.findIndex((limit) => share < limit), why);
}

/** Returns eight questions about the run. Where the run lacks data for one, the next fits in. */
function lessonQuestions(run, policy) {
  const facts = {run, policy, gradients: gradientRows(run), updates: updateRows(run)};
  const makers = [survival, neededScale, tooLargeScale, lostUpdates, lostInBf16, opDtype, memoryPeak,
    skippedSteps, firstNonfinite, castsOfStep, lossInF16, weightSpacing, ...GENERAL];
  const made = [];
  for (const make of makers) {
    const one = made.length < 8 ? make(facts) : null;
    if (one) made.push(one);
  }
  return made;
}

/** For each gradient, the sample with most elements below the range of f16 when unscaled; the
 *  gradient with the largest share first. */
function gradientRows(run) {
  const f16 = formatNamed('f16');
  const worst = new Map();
  for (const {step, rows} of run.samples)
    for (const row of rows) {
      if (!GRADIENT_KINDS.includes(row.kind) || !(row.max > 0) || !Number.isFinite(row.max)) continue;
      const counts = zoneCounts(row, f16, shiftOf(row, 0));
      const share = shareOf(counts.flushed, counts.nonzero);
      const key = `${row.kind} ${row.name}`;
      if (counts.nonzero >= LEAST && !(worst.get(key)?.share >= share)) worst.set(key, {row, step, share});
    }
  return [...worst.values()].sort((a, b) => b.share - a.share);
}

/** The sampled updates with their shares below the line of f16, the largest first. */
function updateRows(run) {
  return run.samples.flatMap(({step, rows}) =>
    rows.filter((row) => row.kind === 'update' && row.ratio && total(row.ratio.counts) >= LEAST).map((row) =>
      ({row, step, share: ratioShare(row.ratio, -11)}))).sort((a, b) => b.share - a.share);
}

function gradientName({kind, name}) {
  return kind === 'weight_grad' ? `the gradient of ${name}` : `the gradient of the activation ${name}`;
}

function survival({gradients}) {
  const [one] = gradients;
  if (!one) return null;
  const lo = one.row.lo + one.row.counts.findIndex((count) => count > 0) + shiftOf(one.row, 0);
  return shareQuestion(`In step ${one.step}, the non-zero elements of ${gradientName(one.row)} have true ` +
    `magnitudes from about ${power2(Math.floor(lo))} to ${numberText(one.row.max / one.row.scale, 3)}. Without ` +
    'loss scaling, how many of them become zero in f16?', one.share,
  `${percentText(one.share)} of them lie below 2⁻²⁵, half of the smallest number of f16, and become zero.`);
}

function neededScale({gradients}) {
  const f16 = formatNamed('f16');
  for (const {row, step} of gradients) {
    const k = smallestScale(row, f16, 0.001);
    if (k === null) continue;
    return numberQuestion(`Which is the smallest of these loss scales with which at most 0.1 % of the elements of ` +
      `${gradientName(row)} (step ${step}) become zero in f16?`, k, [k + 6, k >= 4 ? k - 4 : k + 3, k + 10], power2,
    k === 0 ? 'No scaling is needed: the gradient lies inside the range of f16.' :
      `${power2(k)} moves the histogram up by ${plural(k, 'power')} of two. Try the slider of panel 2.`);
  }
  return null;
}

function tooLargeScale({gradients}) {
  const rows = [...gradients].sort((a, b) => b.row.max / b.row.scale - a.row.max / a.row.scale);
  const f16 = formatNamed('f16');
  for (const {row, step} of rows) {
    const k = largestScale(row, f16);
    if (k === null || k < 0) continue;
    return numberQuestion(`In step ${step}, the largest element of ${gradientName(row)} is ` +
      `${numberText(row.max / row.scale, 3)}. Which is the largest loss scale that does not make it overflow in f16?`,
    k, [k + 1, k + 4, k >= 3 ? k - 3 : k + 7], power2,
    `${numberText(row.max / row.scale, 3)} times ${power2(k)} is ` +
      `${numberText(row.max / row.scale * 2 ** k, 4)}; twice that would not be below 65520.`);
  }
  return null;
}

function lostUpdates({updates: [one]}) {
  if (!one) return null;
  const {share} = one;
  return shareQuestion(`In step ${one.step} the optimizer changes ${one.row.name}. How many of its non-zero updates ` +
    'are below 2⁻¹¹ of their weight, so that a weight of f16 without an f32 master may not move?', share,
  `${percentText(share)} are below 2⁻¹¹. f16 has 10 fraction bits: half the spacing beside 1 is 2⁻¹¹.`);
}

function lostInBf16({updates: [one]}) {
  if (!one) return null;
  const half = one.share, brain = ratioShare(one.row.ratio, -8);
  return question(`And if ${one.row.name} were kept in bf16 instead: how many of these updates would be lost?`,
    ['fewer than in f16', 'as many as in f16', 'more than in f16'], brain > half ? 2 : 1,
    `bf16 has 7 fraction bits, so the line is 2⁻⁸: ${percentText(brain)} are below it, ` +
    `against ${percentText(half)} below the line of f16.`);
}

function opDtype({run, policy}) {
  const at = policy?.levels?.indexOf(run.info.level) ?? -1;
  if (at < 0) return null;
  const used = (run.graph?.ops ?? []).map((op) => op.op);
  const known = policy.ops.filter((op) => used.length === 0 || used.includes(op.name));
  const op = known.find((one) => one.tag === 'f32') ?? known.find((one) => one.tag === 'low') ?? known[0];
  if (!op) return null;
  const options = [...new Set([op.levels[at], 'f32', 'as is', 'f16', 'bf16'])].slice(0, 4).sort();
  return question(`What does level ${run.info.level} do to the inputs of the op ${op.name} (tag ${op.tag})?`,
    options.map((one) => one === 'as is' ? 'leaves them as they are' : one === 'promote' ?
      'casts them to the widest of their types' : `casts them to ${one}`), options.indexOf(op.levels[at]),
    `The tag ${op.tag} says: the op ${TAG_MEANINGS[op.tag] ?? 'follows the policy'}` +
    `${op.levels[at] === 'as is' ? `; at ${run.info.level} ops are not touched` : ''}. See panel 8.`);
}

function memoryPeak({run}) {
  if (run.memory.length === 0) return null;
  const one = run.memory[0], peak = peakOf(one);
  const order = one.categories.map((name, i) => [name, peak.bytes[i]]).sort((a, b) => b[1] - a[1]).slice(0, 4);
  if (order.length < 2 || order[0][1] === order[1][1]) return null;
  const names = order.map(([name]) => name).sort();
  return question(`Memory peaks at ${bytesText(total(peak.bytes))} in step ${one.step}, in the ${peak.phase} phase. ` +
    'Which category takes most of it?', names, names.indexOf(order[0][0]),
  `${order.map(([name, bytes]) => `${name} ${bytesText(bytes)}`).join(', ')}. See panel 6.`);
}

function skippedSteps({run}) {
  const n = run.figures.steps;
  if (n < 4) return null;
  const skipped = run.figures.skipped;
  return numberQuestion(`How many of the ${countText(n)} steps were skipped because a gradient overflowed?`, skipped,
    [0, 2, Math.round(n / 10) + 1, Math.round(n / 2)], countText,
    skipped === 0 ? 'None: every gradient stayed finite.' :
      `${countText(skipped)}: the scale ${scaleText(run.steps[0].scales[0])} was ` +
      'too large there; it is halved after each overflow. See panel 3.');
}

function firstNonfinite({run}) {
  const step = run.steps.find((one) => one.first_nonfinite);
  const name = run.parameters.map((one) => one.name).filter((one) =>
    step?.first_nonfinite.split(' ').includes(one))[0];
  if (!name) return null;
  const others = run.parameters.map((one) => one.name).filter((one) => one !== name);
  const names = [name, ...others.slice(0, 2), ...others.slice(-1)].filter((one, i, all) =>
    all.indexOf(one) === i).sort();
  return names.length < 2 ? null : question(`In step ${step.step} a gradient overflowed at the loss scale ` +
    `${scaleText(step.scales[0])}. Which was the first that was not finite?`, names, names.indexOf(name),
  `${step.first_nonfinite}. See panel 3.`);
}

function castsOfStep({run}) {
  const n = run.figures.casts;
  if (!Number.isFinite(n)) return null;
  return numberQuestion('How many casts does one step of this run make?', n, n === 0 ? [4, 20, 100] :
    [0, Math.ceil(n / 4), n * 3], countText, n === 0 ? 'None: nothing is cast at this level.' :
    `${countText(n)}, which write ${bytesText(run.figures.castBytes)}. See panel 5 for where they are.`);
}

function lossInF16({run}) {
  const loss = run.figures.lastLoss;
  if (!Number.isFinite(loss) || loss === 0) return null;
  return roundingQuestion(loss, formatNamed('f16'), 'The last loss of this run');
}

/** Which number does a value become in a format? */
function roundingQuestion(value, format, what) {
  const right = roundTo(format, value);
  const [below, above] = neighbours(format, right);
  const far = right + 8 * spacing(format, right);
  const others = [below, above, far].filter(Number.isFinite);
  return numberQuestion(`${what} is ${exactText(value)}. Which number does it become in ${format.name}?`, right, others,
    exactText, `The spacing of ${format.name} there is ${numberText(spacing(format, value), 3)}; the nearest number ` +
    `is ${exactText(right)}.`);
}

function weightSpacing({run}) {
  const row = run.samples.flatMap((sample) => sample.rows).find((one) => one.kind === 'weight' && one.max > 0 &&
    one.max < 65504);
  if (!row) return null;
  const k = Math.log2(spacing(formatNamed('f16'), row.max));
  return numberQuestion(`The largest weight of ${row.name} is ${numberText(row.max)}. How far apart are the numbers ` +
    'of f16 there?', k, [k - 3, k + 3, k + 6], power2,
  `${power2(k)}: f16 has 10 fraction bits, so the spacing is 2⁻¹⁰ times the power of two below the number.`);
}

/** Questions that need no data. */
const GENERAL = [
  () => numberQuestion('What is 2048 + 1 in f16?', addRounded(formatNamed('f16'), 2048, 1).sum, [2049, 2050, 2052],
    String, 'From 2048 on the spacing of f16 is 2. 2049 is a tie, which goes to the even fraction: 2048.'),
  () => question('What is 70000 in f16?', ['65504, the largest', '70000', 'infinity'], 2,
    'Numbers from 65520 on round to infinity in f16. bf16 has the range of f32 and holds it, rounded to 70144.'),
  () => question('What is 2⁻²⁵ in f16?', ['zero', '2⁻²⁵', '2⁻²⁴'], 0,
    'The smallest number of f16 is 2⁻²⁴. Half of it is a tie, which goes to the even code: zero.'),
  () => roundingQuestion(0.1, formatNamed('bf16'), 'A learning rate'),
  () => question('Why does bf16 need no loss scaling?', ['It has more fraction bits than f16',
    'It has the exponent of f32', 'Its products are exact'], 1,
  'bf16 has 8 exponent bits like f32, so gradients down to about 10⁻³⁸ survive. It has fewer fraction bits.'),
  () => roundingQuestion(0.1, formatNamed('f16'), 'A learning rate'),
  () => question('What is 500 in f8e4m3?', ['448', '500', 'nan: it is beyond the largest number'], 2,
    'The largest number of f8e4m3 is 448 and there is no infinity; without saturation 500 becomes nan.'),
  () => question('A weight of 1 in f16 gets the update 2⁻¹². What is it then?', ['1', '1 + 2⁻¹²', '1 + 2⁻¹⁰'], 0,
    'The spacing above 1 is 2⁻¹⁰; 2⁻¹² is less than half of it. An f32 master would keep the update.'),
];
