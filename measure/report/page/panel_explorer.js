// Panel 10: any number in five formats, and what two rounded numbers add up to.

const EXAMPLES = ['0.1', '2^-24', '2^-25', '65504', '65520', '70000', '448', '1e-40', '0x3c01',
  'inf', 'nan'];
const explorerState = {a: '0.1', b: '2^-12', bits: 'f16'};

function renderExplorer(body) {
  const result = h('div', {'aria-live': 'polite'});
  const draw = () => show(result, explorerResult());
  const change = (key, value) => (explorerState[key] = value, draw());
  const field = (key) => h('input', {type: 'text', id: `explorer-${key}`, size: 18,
    value: explorerState[key], spellcheck: 'false', autocomplete: 'off',
    input: (event) => change(key, event.target.value)});
  const a = field('a'), b = field('b');
  show(body, h('div', {class: 'controls'},
    h('label', {class: 'field'}, h('span', {}, 'Number a'), a),
    h('label', {class: 'field'}, h('span', {}, 'Number b'), b),
    select('Bits (0x…) are of', FORMATS.map(({name}) => [name, name]), explorerState.bits,
      (name) => change('bits', name))),
  h('p', {class: 'examples'}, 'Examples: ', EXAMPLES.map((text) =>
    button(text, () => (a.value = text, change('a', text))))),
  h('p', {class: 'hint'}, 'Numbers are read as f64 and rounded once, to the nearest; a tie goes ' +
    'to the even fraction. f8e4m3 and f8e5m2 are the OCP formats: f8e4m3 has no infinity, and a ' +
    'number beyond 448 becomes nan here (hardware may saturate to 448 instead).'), result);
  draw();
}

function explorerResult() {
  const bits = formatNamed(explorerState.bits);
  const a = parseNumber(explorerState.a, bits), b = parseNumber(explorerState.b, bits);
  const complaint = (name, {error}) => h('p', {class: 'error', role: 'alert'}, `${name}: ${error}`);
  if (a.error) return complaint('Number a', a);
  return [h('p', {class: 'summary'}, `a is ${exactText(a.value)}.`), numberTable(a.value),
    legend(['sign', 'exponent', 'fraction'].map((part) => [`bit ${part}`, part])),
    b.error ? complaint('Number b', b) : sumTable(a.value, b.value)];
}

function numberTable(x) {
  const rows = FORMATS.map((format) => {
    const code = encode(format, x), value = decode(format, code);
    const hex = `0x${code.toString(16).padStart(format.bits / 4, '0')}`;
    return [format.name, bitsNode(format, code), hex, exactText(value), classOf(format, value),
      ...errorTexts(x, value), ...neighbours(format, x).map((one) => numberText(one, 9))];
  });
  return table('a in each format', ['Format', 'Bits', 'Hex', 'Value', 'Kind', 'Error',
    'Error / a', 'Next below', 'Next above'], rows, [2, 3, 5, 6, 7, 8]);
}

function bitsNode(format, code) {
  const text = code.toString(2).padStart(format.bits, '0'), end = 1 + format.exponent;
  const part = (kind, digits) => h('span', {class: `bit ${kind}`}, digits);
  return h('span', {class: 'bits', role: 'img', 'aria-label': `bits ${text}`},
    part('sign', text[0]), part('exponent', text.slice(1, end)), part('fraction', text.slice(end)));
}

function classOf(format, value) {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return 'infinity';
  if (value === 0) return 'zero';
  return Math.abs(value) < format.minNormal ? 'subnormal' : 'normal';
}

/** The error of a rounded value, absolute and beside x. */
function errorTexts(x, value) {
  if (!Number.isFinite(x)) return ['', ''];
  if (!Number.isFinite(value)) return ['overflow', ''];
  return [numberText(value - x, 3), x === 0 ? '0' : numberText((value - x) / x, 3)];
}

function sumTable(a, b) {
  const exact = a + b;
  const rows = FORMATS.map((format) => {
    const {left, right, sum, lost} = addRounded(format, a, b);
    const error = Number.isFinite(sum) && Number.isFinite(exact) ? numberText(sum - exact, 3) : '';
    const note = !Number.isFinite(sum) ? 'not finite' : right === 0 && b !== 0 ? 'b became zero' :
      lost ? 'b is lost' : sum === exact ? 'exact' : 'rounded';
    return [format.name, exactText(left), exactText(right), exactText(sum), error, note];
  });
  return table(`a + b, each rounded first; in f64 it is ${exactText(exact)}`, ['Format',
    'a rounded', 'b rounded', 'Sum in the format', 'Sum − (a + b)', ''], rows, [1, 2, 3, 4]);
}
