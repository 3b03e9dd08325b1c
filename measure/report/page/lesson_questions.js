// The questions of the lesson, made from the figures of a run. No access to the page.

/** Questions on shares take tensors with at least so many non-zero elements. */
const LEAST = 20;
const SHARE_STEPS = [0.001, 0.1, 0.5, 1.01];
const SHARE_TEXTS = ['almost none (less than 0.1 %)', 'some (0.1 to 10 %)', 'many (10 to 50 %)',
  'half or more'];

/** A question: text, options (texts), the index of the right one, and why. */
function question(text, options, right, why) {
  return {text, options, right, why};
}

/** Returns a question whose options are numbers in ascending order. */
function numberQuestion(text, right, others, show, why) {
  const values = [...new Set([right, ...others])].slice(0, 4).sort((a, b) => a - b);
  return question(text, values.map(show), values.indexOf(right), why);
}

function shareQuestion(text, share, why) {
  return question(text, SHARE_TEXTS, SHARE_STEPS.findIndex((limit) => share < limit), why);
}

/** Returns eight questions about the run. Where the run lacks data for one, the next fits in. */
function lessonQuestions(run, policy) {
  const facts = {run, policy, gradients: gradientRows(run), updates: updateRows(run)};
  const makers = [survival, neededScale, tooLargeScale, lostUpdates, lostInBf16, opDtype,
    memoryPeak, firstNonfinite, skippedSteps, lossInF16, ...GENERAL];
  const made = [];
  for (const make of makers) {
    const one = made.length < 8 ? make(facts) : null;
    if (one) made.push(one);
  }
  return made;
}

/** For each gradient, the sample with most elements below the range of f16 when unscaled; the
 *  gradient with the largest share first. `true` magnitudes are those without the loss scale. */
function gradientRows(run) {
  const f16 = formatNamed('f16'), worst = new Map();
  for (const {step, rows} of run.samples)
    for (const row of rows) {
      if (!GRADIENT_KINDS.includes(row.kind) || !(row.max > 0 && row.max < Infinity)) continue;
      const counts = zoneCounts(row, f16, shiftOf(row, 0));
      const share = shareOf(counts.flushed, counts.nonzero), key = `${row.kind} ${row.name}`;
      const most = row.max / row.scale;
      if (counts.nonzero >= LEAST && !(worst.get(key)?.share >= share))
        worst.set(key, {row, step, share, most, name: gradientName(row)});
    }
  return [...worst.values()].sort((a, b) => b.share - a.share);
}

function gradientName({kind, name}) {
  return `the gradient of ${kind === 'weight_grad' ? '' : 'the activation '}${name}`;
}

/** The sampled updates with their shares below the line of f16, the largest first. */
function updateRows(run) {
  return run.samples.flatMap((sample) =>
    updatesOf(sample).filter((row) => total(row.ratio.counts) >= LEAST).map((row) =>
      ({row, step: sample.step, share: ratioShare(row.ratio, -11)})))
    .sort((a, b) => b.share - a.share);
}

function survival({gradients: [one]}) {
  if (!one) return null;
  const first = one.row.counts.findIndex((count) => count > 0);
  const lo = power2(Math.floor(one.row.lo + first + shiftOf(one.row, 0)));
  return shareQuestion(`In step ${one.step}, the non-zero elements of ${one.name} have ` +
    `magnitudes from about ${lo} to ${numberText(one.most, 3)} before scaling. Without loss ` +
    'scaling, how many of them become zero in f16?', one.share,
    `${percentText(one.share)} of them lie below ` +
    '2⁻²⁵, half of the smallest number of f16, and become zero. See panel 3.');
}

function neededScale({gradients}) {
  for (const {row, step, name} of gradients) {
    const k = smallestScale(row, formatNamed('f16'), 0.001);
    if (k !== null) return numberQuestion('Which is the smallest of these loss scales with which ' +
      `at most 0.1 % of the elements of ${name} (step ${step}) become zero in f16?`, k,
    [k + 6, k >= 4 ? k - 4 : k + 3, k + 10], power2, k === 0 ?
      'No scaling is needed: the gradient lies inside the range of f16.' :
      `${power2(k)} moves them up by ${plural(k, 'power')} of two. Try the slider in panel 3.`);
  }
  return null;
}

function tooLargeScale({gradients}) {
  for (const {row, step, name, most} of [...gradients].sort((a, b) => b.most - a.most)) {
    const k = largestScale(row, formatNamed('f16'));
    if (k !== null && k >= 0) return numberQuestion(`In step ${step}, the largest element of ` +
      `${name} is ${numberText(most, 3)} before scaling. Which is the largest of these loss ` +
      'scales with which it does not overflow in f16?', k, [k + 1, k + 4, k >= 3 ? k - 3 : k + 7],
    power2,
    `${numberText(most, 3)} times ${power2(k)} is ${numberText(most * 2 ** k)}; numbers from ` +
      '65520 on become infinite.');
  }
  return null;
}

function lostUpdates({updates: [one]}) {
  return one ? shareQuestion(`In step ${one.step} the optimizer changes ${one.row.name}. How ` +
    'many of its non-zero updates are below 2⁻¹¹ of their weight, so that a weight of f16 ' +
    'without an f32 master may not move?', one.share,
  `${percentText(one.share)}. f16 has 10 fraction bits: half the ` +
    'spacing beside 1 is 2⁻¹¹. See panel 5.') : null;
}

function lostInBf16({updates: [one]}) {
  if (!one) return null;
  const brain = ratioShare(one.row.ratio, -8);
  return question(`And if ${one.row.name} were kept in bf16: how many of these updates would be ` +
    'lost?', ['fewer than in f16', 'as many as in f16', 'more than in f16'],
  brain > one.share ? 2 : 1, 'bf16 has 7 fraction bits, so the line is 2⁻⁸: ' +
    `${percentText(brain)} are below it, against ${percentText(one.share)} below the line of f16.`);
}

function opDtype({run, policy}) {
  const at = policy?.levels?.indexOf(run.info.level) ?? -1;
  if (at < 0) return null;
  const used = (run.graph?.ops ?? []).map((op) => op.op);
  const known = policy.ops.filter((op) => used.length === 0 || used.includes(op.name));
  const op = known.find((one) => one.tag === 'f32') ?? known.find((one) => one.tag === 'low') ??
    known[0];
  if (!op) return null;
  const action = op.levels[at];
  const options = [...new Set([action, 'f32', 'as is', 'f16', 'bf16'])].slice(0, 4).sort();
  return question(`What does level ${run.info.level} do to the inputs of the op ${op.name}?`,
    options.map((one) => ({'as is': 'leaves them as they are', refused: 'refuses them',
      promote: 'casts them to the widest of their types'}[one] ?? `casts them to ${one}`)),
    options.indexOf(action), `Its tag is ${op.tag}: ${TAG_MEANINGS[op.tag] ?? 'see the policy'}` +
    `${action === 'as is' ? `; level ${run.info.level} leaves it alone` : ''}. See panel 9.`);
}

function memoryPeak({run: {memory: [one]}}) {
  if (!one) return null;
  const peak = peakOf(one);
  const order = one.categories.map((name, i) => [name, peak.bytes[i]])
    .sort((a, b) => b[1] - a[1]).slice(0, 4);
  if (order.length < 2 || order[0][1] === order[1][1]) return null;
  const names = order.map(([name]) => name).sort();
  return question(`Memory peaks at ${bytesText(total(peak.bytes))} in step ${one.step}, in the ` +
    `${peak.phase} phase. Which category takes most of it?`, names, names.indexOf(order[0][0]),
  `${order.map(([name, bytes]) => `${name} ${bytesText(bytes)}`).join(', ')}. See panel 7.`);
}

function firstNonfinite({run}) {
  const step = run.steps.find((one) => one.first_nonfinite);
  const names = run.parameters.map((one) => one.name);
  const right = names.find((name) => step?.first_nonfinite.split(/[\s"]/).includes(name));
  const others = names.filter((name) => name !== right);
  if (!right || others.length === 0) return null;
  const options = [...new Set([right, ...others.slice(0, 2), others.at(-1)])].sort();
  return question(`In step ${step.step} a gradient overflowed at the loss scale ` +
    `${scaleText(step.scales[0])}. Which was the first that was not finite?`, options,
  options.indexOf(right), `${step.first_nonfinite}. See panel 4.`);
}

function skippedSteps({run}) {
  const {steps, skipped} = run.figures;
  return steps < 4 ? null : numberQuestion(`How many of the ${countText(steps)} steps were ` +
    'skipped because a gradient overflowed?', skipped, [0, 2, Math.round(steps / 10) + 1,
    Math.round(steps / 2)], countText, skipped === 0 ? 'None: no step was skipped.' :
    `${countText(skipped)}: a dynamic scale is halved after each overflow. See panel 4.`);
}

function lossInF16({run}) {
  const loss = run.figures.lastLoss;
  return Number.isFinite(loss) && Math.abs(loss) < 60000 && Math.abs(loss) > 1e-4 ?
    roundingQuestion(loss, formatNamed('f16'), 'The last loss of this run') : null;
}

/** Which number does a value become in a format? */
function roundingQuestion(value, format, what) {
  const right = roundTo(format, value), gap = spacing(format, right);
  return numberQuestion(`${what} is ${exactText(value)}. What is it in ${format.name}?`, right,
    [...neighbours(format, right), right + 8 * gap].filter(Number.isFinite), exactText,
    `The spacing there is ${numberText(gap, 3)}; ${exactText(right)} is nearest.`);
}

/** Questions that need no data. */
const GENERAL = [
  () => numberQuestion('What is 2048 + 1 in f16?', addRounded(formatNamed('f16'), 2048, 1).sum,
    [2049, 2050, 2052], String,
    'From 2048 on the spacing of f16 is 2. 2049 is a tie, which goes to the even fraction: 2048.'),
  () => question('What is 70000 in f16?', ['65504, the largest', '70000', 'infinity'], 2,
    'Numbers from 65520 on become infinite in f16. bf16 has the range of f32: 70144 there.'),
  () => question('What is 2⁻²⁵ in f16?', ['zero', '2⁻²⁵', '2⁻²⁴'], 0,
    'The smallest number of f16 is 2⁻²⁴. Half of it is a tie, which goes to zero, the even one.'),
  () => roundingQuestion(0.1, formatNamed('bf16'), 'A learning rate'),
  () => question('Why does bf16 need no loss scaling?', ['It has more fraction bits than f16',
    'It has the exponent of f32', 'Its products are exact'], 1,
  'bf16 has 8 exponent bits like f32: gradients down to 10⁻³⁸ survive, with fewer digits.'),
  () => roundingQuestion(0.1, formatNamed('f16'), 'A learning rate'),
  () => question('What is 500 in f8e4m3?', ['448', '500', 'nan'], 2,
    'Its largest number is 448 and it has no infinity; without saturation 500 becomes nan.'),
  () => question('A weight of 1 in f16 gets the update 2⁻¹². What is it then?',
    ['1', '1 + 2⁻¹²', '1 + 2⁻¹⁰'], 0,
    'The spacing above 1 is 2⁻¹⁰; 2⁻¹² is less than half of it. An f32 master keeps it.'),
];
