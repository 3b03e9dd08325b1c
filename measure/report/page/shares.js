// Shares of a histogram's elements in the zones of a format. No access to the page.

const GRADIENT_KINDS = ['activation_grad', 'weight_grad'];

/** The formats that have bands in the drawings. */
const BAND_FORMATS = ['f16', 'bf16', 'f8e4m3', 'f8e5m2'];

/** Returns the borders between the zones of a format, as base-2 logarithms: below `zero` magnitudes
 *  round to zero, below `normal` they are subnormal, from `over` on they overflow. */
function zonesOf(format) {
  return {
    zero: format.emin - format.fraction - 1,
    normal: format.emin,
    over: Math.log2(format.limit),
  };
}

/** Returns the exponent shift that turns a row's recorded values into those at the loss scale 2^k;
 *  k null: as recorded. Only gradients contain the loss scale. */
function shiftOf(row, k) {
  if (k === null || !GRADIENT_KINDS.includes(row.kind)) return 0;
  return k - Math.log2(row.scale);
}

function between(x, low, high) {
  return Math.min(high, Math.max(low, x));
}

/** Returns how many elements of the row round to zero, become subnormal, stay normal or overflow in
 *  the format after a shift of exponents. The format's borders are powers of two but for `over`, so
 *  counts are exact up to ties. In the bin that `over` divides, elements are taken as evenly spread
 *  in log2; the row's largest magnitude decides whether any is above. `nonzero` counts all finite
 *  elements that are not zero; inf and nan are as recorded. */
function zoneCounts(row, format, shift) {
  const {zero, normal, over} = zonesOf(format);
  const result = {nonzero: 0, flushed: 0, subnormal: 0, normal: 0, overflow: 0};
  for (const [i, count] of row.counts.entries()) {
    const low = row.lo + i + shift;
    const flushed = count * between(zero - low, 0, 1);
    const small = count * between(normal - low, 0, 1);
    const above = count * between(low + 1 - over, 0, 1);
    result.nonzero += count;
    result.flushed += flushed;
    result.subnormal += small - flushed;
    result.overflow += above;
  }
  result.overflow = correctedOverflow(row, format, shift, result.overflow);
  result.normal = result.nonzero - result.flushed - result.subnormal - result.overflow;
  return result;
}

/** The estimate of overflowed elements, made consistent with the largest magnitude. */
function correctedOverflow(row, format, shift, estimate) {
  if (!Number.isFinite(row.max)) return estimate;
  const largest = row.max * 2 ** shift;
  const any = format.limitOverflows ? largest >= format.limit : largest > format.limit;
  return any ? Math.max(1, estimate) : 0;
}

/** Returns the sums of zoneCounts over rows, each shifted to the loss scale 2^k. */
function totalCounts(rows, format, k) {
  const total = {nonzero: 0, flushed: 0, subnormal: 0, normal: 0, overflow: 0};
  for (const row of rows) {
    const counts = zoneCounts(row, format, shiftOf(row, k));
    for (const key of Object.keys(total)) total[key] += counts[key];
  }
  return total;
}

/** Returns part / whole, or 0 of nothing. */
function shareOf(part, whole) {
  return whole > 0 ? part / whole : 0;
}

/** Returns the share of non-zero updates whose ratio to the weight is below 2^line. Updates that
 *  are exactly zero are not counted. */
function ratioShare(ratio, line) {
  let below = 0, all = 0;
  for (const [i, count] of ratio.counts.entries()) {
    if (ratio.lo + i < line) below += count;
    all += count;
  }
  return shareOf(below, all);
}

/** Returns the ratios of several rows added up. */
function addRatios(ratios) {
  const filled = ratios.filter((ratio) => ratio.counts.length > 0);
  const lo = Math.min(...filled.map((ratio) => ratio.lo), 0);
  const counts = [];
  for (const ratio of filled)
    ratio.counts.forEach((count, i) => {
      const at = ratio.lo - lo + i;
      while (counts.length <= at) counts.push(0);
      counts[at] += count;
    });
  return {lo, counts, zero: ratios.reduce((sum, ratio) => sum + ratio.zero, 0)};
}

/** Returns the largest k with which no element of the row overflows in the format, or null. */
function largestScale(row, format) {
  if (!(row.max > 0) || !Number.isFinite(row.max)) return null;
  const unscaled = row.max / row.scale;
  let k = Math.ceil(Math.log2(format.limit / unscaled)) + 1;
  while (correctedOverflow(row, format, k - Math.log2(row.scale), 1) > 0) --k;
  return k;
}

/** Returns the smallest k >= 0 with which at most a share of the non-zero elements becomes zero. */
function smallestScale(row, format, share, most = 60) {
  for (let k = 0; k <= most; ++k) {
    const counts = zoneCounts(row, format, shiftOf(row, k));
    if (shareOf(counts.flushed, counts.nonzero) <= share) return k;
  }
  return null;
}

/** Returns the median of the finite numbers, NaN of none. */
function median(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return NaN;
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
