// Panel 9: any number in five formats, and what two rounded numbers add up to.

const explorerState = {a: '0.1', b: '2^-12', bits: 'f16'};

function renderExplorer(body) {
  const result = h('div', {'aria-live': 'polite'});
  const draw = () => show(result, explorerResult());
  const field = (key, label) => h('label', {class: 'field'}, h('span', {}, label), h('input', {type: 'text',
    id: `explorer-${key}`, value: explorerState[key], spellcheck: 'false', autocomplete: 'off', size: 18,
    input: (event) => (explorerState[key] = event.target.value, draw())}));
  const examples = ['0.1', '2^-24', '2^-25', '65504', '65520', '70000', '448', '1e-40', '0x3c01', 'inf', 'nan'];
  const use = (text) => {
    explorerState.a = document.getElementById('explorer-a').value = text;
    draw();
  };
  show(body, h('div', {class: 'controls'}, field('a', 'Number a'), field('b', 'Number b'),
    select('Bits (0x…) are of', FORMATS.map((one) => [one.name, one.name]), explorerState.bits, (name) =>
      (explorerState.bits = name, draw()))),
  h('p', {class: 'examples'}, 'Examples: ', examples.map((text) => button(text, () => use(text)))),
  h('p', {class: 'hint'}, 'Numbers are read as f64 and rounded once, to the nearest; a tie goes to the even ' +
    'fraction. f8e4m3 and f8e5m2 are the OCP formats: f8e4m3 has no infinity, and a number beyond 448 becomes ' +
    'nan here (hardware may saturate to 448 instead).'), result);
  draw();
}

function explorerResult() {
  const bits = formatNamed(explorerState.bits);
  const a = parseNumber(explorerState.a, bits), b = parseNumber(explorerState.b, bits);
  if (a.error) return h('p', {class: 'error', role: 'alert'}, `Number a: ${a.error}`);
  const sums = b.error ? h('p', {class: 'error', role: 'alert'}, `Number b: ${b.error}`) :
    sumTable(a.value, b.value);
  return [h('p', {class: 'summary'}, `a is ${exactText(a.value)}.`), numberTable(a.value),
    legend([['bit sign', 'sign'], ['bit exponent', 'exponent'], ['bit fraction', 'fraction']]), sums];
}

function numberTable(x) {
  const rows = FORMATS.map((format) => {
    const code = encode(format, x), value = decode(format, code);
    const [below, above] = neighbours(format, x);
    return [format.name, bitsNode(format, code), hexText(format, code), exactText(value), classOf(format, value),
      ...errorTexts(format, x, value), numberText(below, 9), numberText(above, 9)];
  });
  return table('a in each format', ['Format', 'Bits', 'Hex', 'Value', 'Kind', 'Error', 'Error / a', 'Next below',
    'Next above'], rows, [2, 3, 5, 6, 7, 8]);
}

function bitsNode(format, code) {
  const text = code.toString(2).padStart(format.bits, '0');
  const part = (kind, from, to) => h('span', {class: `bit ${kind}`}, text.slice(from, to));
  return h('span', {class: 'bits', role: 'img', 'aria-label': `bits ${text}`}, part('sign', 0, 1),
    part('exponent', 1, 1 + format.exponent), part('fraction', 1 + format.exponent));
}

function hexText(format, code) {
  return `0x${code.toString(16).padStart(format.bits / 4, '0')}`;
}

function classOf(format, value) {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return 'infinity';
  if (value === 0) return 'zero';
  return Math.abs(value) < format.minNormal ? 'subnormal' : 'normal';
}

/** The error of a rounded value, absolute and beside x. */
function errorTexts(format, x, value) {
  if (Number.isNaN(x)) return ['', ''];
  if (!Number.isFinite(value)) return Number.isFinite(x) ? ['overflow', ''] : ['0', ''];
  const error = value - x;
  return [numberText(error, 3), x === 0 ? '0' : numberText(error / x, 3)];
}

function sumTable(a, b) {
  const rows = FORMATS.map((format) => {
    const {left, right, sum, lost} = addRounded(format, a, b);
    const note = lost ? 'b is lost' : !Number.isFinite(sum) ? 'not finite' : sum === a + b ? 'exact' : 'rounded';
    return [format.name, exactText(left), exactText(right), exactText(sum),
      Number.isFinite(sum) && Number.isFinite(a + b) ? numberText(sum - (a + b), 3) : '', note];
  });
  return table(`a + b, each rounded first; in f64 it is ${exactText(a + b)}`, ['Format', 'a rounded', 'b rounded',
    'Sum in the format', 'Sum − (a + b)', ''], rows, [1, 2, 3, 4]);
}
