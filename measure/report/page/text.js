// Numbers and names as text.

const SUPERSCRIPT = '⁰¹²³⁴⁵⁶⁷⁸⁹';

const COUNT = new Intl.NumberFormat('en-US');

/** Returns 2 to the power e: "2⁻¹¹". */
function power2(e) {
  return '2' + String(e).replace(/./g, (c) => SUPERSCRIPT[c] ?? '⁻');
}

/** Returns a number with so many significant digits; nan and inf by name. */
function numberText(x, digits = 4) {
  if (Number.isNaN(x)) return 'nan';
  if (!Number.isFinite(x)) return x > 0 ? 'inf' : '-inf';
  if (x === 0) return Object.is(x, -0) ? '-0' : '0';
  const a = Math.abs(x);
  if (a >= 1e6 || a < 1e-3)
    return x.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('+', '');
  return String(Number(x.toPrecision(digits)));
}

/** Returns a number with all its digits. */
function exactText(x) {
  if (!Number.isFinite(x) || x === 0) return numberText(x);
  return String(x).replace('e+', 'e');
}

function countText(n) {
  return Number.isFinite(n) ? COUNT.format(Math.round(n)) : 'unknown';
}

/** Returns "1 step", "2 steps". */
function plural(n, noun) {
  return `${countText(n)} ${noun}${n === 1 ? '' : 's'}`;
}

/** Returns a share as percent. Only an exact 0 and an exact 1 are shown as 0 % and 100 %. */
function percentText(share) {
  if (!Number.isFinite(share)) return 'unknown';
  if (share === 0) return '0\u00a0%';
  if (share === 1) return '100\u00a0%';
  const percent = 100 * share;
  if (percent < 0.01) return '<\u00a00.01\u00a0%';
  if (percent > 99.9) return '>\u00a099.9\u00a0%';
  return `${percent.toFixed(percent < 1 ? 2 : 1)}\u00a0%`;
}

function bytesText(bytes) {
  if (!Number.isFinite(bytes)) return 'unknown';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0, value = bytes;
  while (Math.abs(value) >= 1024 && unit + 1 < units.length) value /= 1024, ++unit;
  return `${unit === 0 ? value : Number(value.toPrecision(3))} ${units[unit]}`;
}

function msText(ms) {
  if (!Number.isFinite(ms)) return 'unknown';
  return ms >= 1000 ? `${numberText(ms / 1000, 3)} s` : `${numberText(ms, 3)} ms`;
}

/** Returns a loss scale: "65536 = 2¹⁶", or the number alone. */
function scaleText(scale) {
  if (!Number.isFinite(scale) || scale <= 0) return numberText(scale);
  const k = Math.log2(scale);
  const number = scale >= 1 && scale < 2 ** 53 ? String(scale) : numberText(scale);
  return Number.isInteger(k) ? `${number} = ${power2(k)}` : number;
}

/** Returns "64×6×24×24", or "scalar". */
function shapeText(shape) {
  return !shape || shape.length === 0 ? 'scalar' : shape.join('×');
}
