// Floating-point formats: encoding, decoding and rounding to nearest even. No access to the page.

/** A format: name, bits of exponent and fraction, exponent bias, whether it has infinities.
 *  f8e4m3 and f8e5m2 are those of the OCP 8-bit floating point specification 1.0. */
const FORMATS = [
  {name: 'f32', exponent: 8, fraction: 23, bias: 127, infinite: true},
  {name: 'f16', exponent: 5, fraction: 10, bias: 15, infinite: true},
  {name: 'bf16', exponent: 8, fraction: 7, bias: 127, infinite: true},
  {name: 'f8e4m3', exponent: 4, fraction: 3, bias: 7, infinite: false},
  {name: 'f8e5m2', exponent: 5, fraction: 2, bias: 15, infinite: true},
].map(completeFormat);

/** Adds what follows from the widths: bits, smallest exponent, codes and limits. */
function completeFormat(format) {
  const {exponent, fraction, bias, infinite} = format;
  const emin = 1 - bias;  // exponent of the smallest normal number
  const special = (2 ** exponent - 1) * 2 ** fraction;  // code of infinity, if there is one
  const maxCode = infinite ? special - 1 : special + 2 ** fraction - 2;
  const nanCode = infinite ? special + 2 ** (fraction - 1) : maxCode + 1;
  const all = {...format, bits: 1 + exponent + fraction, emin, special, maxCode, nanCode};
  all.max = decode(all, maxCode);
  all.minNormal = 2 ** emin;
  all.minSubnormal = 2 ** (emin - fraction);
  // The first magnitude that rounds beyond max is half a unit above it. A tie goes to the even
  // code: beyond max if maxCode is odd (all formats but f8e4m3).
  all.limit = all.max + 2 ** (exponentOf(all.max) - fraction - 1);
  all.limitOverflows = maxCode % 2 === 1;
  return all;
}

function formatNamed(name) {
  return FORMATS.find((format) => format.name === name);
}

/** Returns floor(log2(a)) of a finite a > 0, exactly. */
function exponentOf(a) {
  let e = Math.floor(Math.log2(a));
  while (2 ** e > a) --e;
  while (2 ** (e + 1) <= a) ++e;
  return e;
}

/** Returns the integer that is nearest to q >= 0, the even one of two. */
function roundToEven(q) {
  const low = Math.floor(q);
  const rest = q - low;
  if (rest === 0.5) return low + (low % 2);
  return rest > 0.5 ? low + 1 : low;
}

/** Returns the bits of x rounded to the format, as an unsigned integer. */
function encode(format, x) {
  const sign = x < 0 || Object.is(x, -0) ? 2 ** (format.bits - 1) : 0;
  if (Number.isNaN(x)) return format.nanCode;
  const a = Math.abs(x);
  const beyond = format.infinite ? format.special : format.nanCode;
  if (a === 0) return sign;
  if (a === Infinity) return sign + beyond;
  const e = Math.max(exponentOf(a), format.emin);
  const units = roundToEven(a / 2 ** (e - format.fraction));
  const code = (e - format.emin) * 2 ** format.fraction + units;
  return sign + (code > format.maxCode ? beyond : code);
}

/** Returns the number that the bits stand for. */
function decode(format, code) {
  const half = 2 ** (format.bits - 1);
  const sign = code >= half ? -1 : 1;
  const magnitude = code % half;
  if (format.infinite && magnitude === format.special) return sign * Infinity;
  if (magnitude > format.maxCode) return NaN;
  const field = Math.floor(magnitude / 2 ** format.fraction);
  const fraction = magnitude % 2 ** format.fraction;
  if (field === 0) return sign * fraction * format.minSubnormal;
  return sign * (1 + fraction / 2 ** format.fraction) * 2 ** (field - format.bias);
}

/** Returns x rounded to the format. Beyond the largest number: infinity, in f8e4m3 nan. */
function roundTo(format, x) {
  return decode(format, encode(format, x));
}

/** Returns the format's numbers just below and above x, as [below, above]; for a number of the
 *  format these are its neighbours. Beyond the largest is infinity, or nothing: NaN. */
function neighbours(format, x) {
  const r = roundTo(format, x);
  if (!Number.isFinite(x) || !Number.isFinite(r)) {
    if (Number.isNaN(x)) return [NaN, NaN];
    const beyond = format.infinite && Number.isFinite(x) ? Infinity : NaN;
    return x > 0 ? [format.max, beyond] : [-beyond, -format.max];
  }
  return [r < x ? r : step(format, r, -1), r > x ? r : step(format, r, 1)];
}

/** Returns the next number of the format in a direction, -1 or 1. */
function step(format, value, direction) {
  if (value === 0) return direction * format.minSubnormal;
  const away = Math.sign(value) === direction;
  const magnitude = encode(format, Math.abs(value)) + (away ? 1 : -1);
  return Math.sign(value) * decode(format, magnitude);
}

/** Returns the distance between neighbours around x, in the format. */
function spacing(format, x) {
  const a = Math.abs(x);
  const e = a === 0 ? format.emin : Math.max(exponentOf(a), format.emin);
  return 2 ** (e - format.fraction);
}

/** Returns the sum of two numbers that are first rounded to the format, with the parts. The exact
 *  sum of two such numbers is rounded once; f64 holds enough bits for that to be right. */
function addRounded(format, a, b) {
  const left = roundTo(format, a), right = roundTo(format, b);
  const sum = roundTo(format, left + right);
  return {left, right, sum, lost: right !== 0 && Number.isFinite(right) && sum === left};
}

/** Returns {value} or {error} of what a user typed: a number, inf, nan, bits of the format as 0x..
 *  or 0b.., or products and powers such as 3*2^-14. */
function parseNumber(text, format) {
  const clean = text.trim().toLowerCase().replaceAll('−', '-').replaceAll('_', '');
  if (clean === '') return {error: 'type a number'};
  const word = /^([+-]?)(inf|infinity|nan)$/.exec(clean);
  if (word) return {value: word[2] === 'nan' ? NaN : word[1] === '-' ? -Infinity : Infinity};
  if (/^0[xb]/.test(clean)) return parseBits(clean, format);
  return parseProduct(clean.replaceAll(' ', '').replaceAll('**', '^'));
}

function parseBits(text, format) {
  const code = Number(text);
  if (!Number.isInteger(code)) return {error: `${text} is not a number of bits`};
  if (code >= 2 ** format.bits) return {error: `${text} has more than ${format.bits} bits`};
  return {value: decode(format, code)};
}

function parseProduct(text) {
  const number = '[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:e[+-]?\\d+)?';
  const factor = `${number}(?:\\^${number})?`;
  if (!new RegExp(`^${factor}(?:[*/]${factor})*$`).test(text))
    return {error: `${text} is not a number; examples: 0.1, 1e-7, 2^-24, 0x3c00, inf, nan`};
  let value = 1;
  for (const [, sign, base, power] of text.matchAll(
    new RegExp(`([*/]?)(${number})(?:\\^(${number}))?`, 'g'))) {
    // the sign of a power's base belongs to the power: -2^4 is -16
    const negative = power !== undefined && base.startsWith('-') ? -1 : 1;
    const one = power === undefined ? Number(base) :
      negative * Math.abs(Number(base)) ** Number(power);
    value = sign === '/' ? value / one : value * one;
  }
  return {value};
}
