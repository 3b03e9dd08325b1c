"""Floating-point formats by exact fractions, as a reference for the report's page.

A number is rounded by a search among all numbers of the format, which are computed from their bits;
f32 is left to the struct module.
"""
import bisect
import functools
import math
import random
import struct
from fractions import Fraction

# name: (exponent bits, fraction bits, whether it has infinities)
FORMATS = {
    'f32': (8, 23, True),
    'f16': (5, 10, True),
    'bf16': (8, 7, True),
    'f8e4m3': (4, 3, False),
    'f8e5m2': (5, 2, True)
}


def decode(form, code):
    """Returns the number of the bits."""
    exponent_bits, fraction_bits, infinite = FORMATS[form]
    bias = 2**(exponent_bits - 1) - 1
    fraction = code & (2**fraction_bits - 1)
    field = code >> fraction_bits & (2**exponent_bits - 1)
    sign = -1.0 if code >> (exponent_bits + fraction_bits) else 1.0
    last = field == 2**exponent_bits - 1
    if last and (infinite or fraction == 2**fraction_bits - 1):
        return sign * math.inf if infinite and fraction == 0 else math.nan
    if field == 0:
        return sign * math.ldexp(fraction, 1 - bias - fraction_bits)
    return sign * math.ldexp(2**fraction_bits + fraction, field - bias - fraction_bits)


def all_values(form):
    """Returns the numbers of all codes, in the order of the codes."""
    exponent_bits, fraction_bits, _ = FORMATS[form]
    return [decode(form, code) for code in range(2**(1 + exponent_bits + fraction_bits))]


@functools.lru_cache(None)
def magnitudes(form):
    """Returns the finite numbers >= 0 in ascending order; the index is the code."""
    return [value for value in all_values(form)[:2**sum(FORMATS[form][:2])] if math.isfinite(value)]


def encode(form, x):
    """Returns the bits of x, rounded to nearest, a tie to the even code."""
    sign_bit = 2**sum(FORMATS[form][:2])
    sign = sign_bit if math.copysign(1, x) < 0 and not math.isnan(x) else 0
    if form == 'f32':
        return encode_f32(x)
    known = magnitudes(form)
    count, infinite = len(known), FORMATS[form][2]
    if math.isnan(x):
        return count + 2**(FORMATS[form][1] - 1) if infinite else count
    a = abs(x)
    if math.isinf(a):
        return sign + count
    above = bisect.bisect_left(known, a)
    if above < count and known[above] == a:
        return sign + above
    beyond = 2 * Fraction(known[-1]) - Fraction(known[-2])  # what would follow the largest
    high = Fraction(known[above]) if above < count else beyond
    low = Fraction(known[above - 1])
    up, down = high - Fraction(a), Fraction(a) - low
    code = above if up < down or (up == down and above % 2 == 0) else above - 1
    return sign + min(code, count)


def encode_f32(x):
    if math.isnan(x):
        return 0x7fc00000
    try:
        return struct.unpack('<I', struct.pack('<f', x))[0]
    except OverflowError:
        return 0x7f800000 + (0x80000000 if x < 0 else 0)


def rounded(form, x):
    return decode(form, encode(form, x))


def neighbours(form, x):
    """Returns the numbers of the format just below and above x."""
    if math.isnan(x):
        return math.nan, math.nan
    if math.isinf(x):
        largest = decode('f32', 0x7f7fffff) if form == 'f32' else magnitudes(form)[-1]
        return (largest, math.nan) if x > 0 else (math.nan, -largest)
    return -next_above(form, -x), next_above(form, x)


def next_above(form, x):
    """Returns the least number of the format that is above x; NaN if there is none."""
    infinite = FORMATS[form][2]
    if form == 'f32':
        code = encode_f32(abs(x))
        near = [decode(form, c) for c in range(max(0, code - 2), min(code + 3, 0x7f800001))]
    else:
        at = bisect.bisect_left(magnitudes(form), abs(x))
        near = magnitudes(form)[max(0, at - 2):at + 3] + ([math.inf] if infinite else [])
    candidates = [value for one in near for value in (one, -one) if value > x]
    return min(candidates, default=math.nan)


def same(a, b):
    """True for the same number, with the sign of zero, and for two NaN."""
    return a == b and math.copysign(1, a) == math.copysign(1, b) or math.isnan(a) and math.isnan(b)


def text_of(x):
    """Returns a number as JavaScript writes it."""
    if math.isnan(x):
        return 'NaN'
    if math.isinf(x):
        return 'Infinity' if x > 0 else '-Infinity'
    if x == 0:
        return '-0' if math.copysign(1, x) < 0 else '0'
    digits = repr(x)
    mantissa, _, exponent = digits.partition('e')
    return js_text(mantissa, int(exponent or 0), x)


def js_text(mantissa, exponent, x):
    """The shortest digits of x in JavaScript's notation: fixed from 1e-6 to below 1e21."""
    sign, mantissa = ('-', mantissa[1:]) if x < 0 else ('', mantissa)
    whole, _, part = mantissa.partition('.')
    digits = (whole + part).lstrip('0')
    point = len(whole) + exponent - (len(whole + part) - len(digits))
    digits = digits.rstrip('0')
    if 0 < point <= 21:
        return sign + (digits.ljust(point, '0')
                       if len(digits) <= point else f'{digits[:point]}.{digits[point:]}')
    if -6 < point <= 0:
        return f'{sign}0.{"0" * -point}{digits}'
    tail = f'.{digits[1:]}' if len(digits) > 1 else ''
    return f'{sign}{digits[0]}{tail}e{point - 1:+d}'


def facts(form, a, b):
    """Returns the texts of a's code, value, neighbours, and the sum of a and b in the format.

    A neighbour that is zero has no sign."""
    left, right = rounded(form, a), rounded(form, b)
    low, high = neighbours(form, a)
    return [
        str(encode(form, a)),
        text_of(left),
        text_of(low + 0.0),
        text_of(high + 0.0),
        text_of(rounded(form, left + right))
    ]


def test_values():
    """Returns numbers at the borders of all formats, and random ones."""
    generator = random.Random(7)
    values = [
        0.0, -0.0, math.inf, -math.inf, math.nan, 0.1, 1 / 3, 2049.0, 70000.0, 464.0, 480.0, 1e-40,
        1e39, 1.7e308, 5e-324
    ]
    for form, (exponent_bits, fraction_bits, _) in FORMATS.items():
        smallest = math.ldexp(1, 2 - 2**(exponent_bits - 1) - fraction_bits)
        largest = decode('f32', 0x7f7fffff) if form == 'f32' else magnitudes(form)[-1]
        half = math.ldexp(1, math.frexp(largest)[1] - 2 - fraction_bits)
        for border in (smallest, smallest / 2, 1.5 * smallest, smallest * 2**fraction_bits, largest,
                       largest + half):
            values += [border, -border, math.nextafter(border, 0), math.nextafter(border, math.inf)]
    values += [
        generator.choice((-1, 1)) * math.ldexp(1 + generator.random(), generator.randint(-150, 128))
        for _ in range(400)
    ]
    values += [
        generator.choice(
            (-1, 1)) * math.ldexp(1 + generator.randint(0, 63) / 64, generator.randint(-26, 16))
        for _ in range(300)
    ]
    return values


def zone_counts(row, form, k):
    """Returns [non-zero, flushed, subnormal, normal, overflowed] of a row's elements.

    They are those at the loss scale 2^k, or as recorded (None). The bin that the limit of the
    format divides counts by its length in log2, and only if the largest element is beyond the
    limit, then at least 1."""
    _, fraction_bits, infinite = FORMATS[form]
    finite = magnitudes(form)
    tiny, normal = math.log2(finite[1] / 2), math.log2(finite[2**fraction_bits])
    limit = finite[-1] + (finite[-1] - finite[-2]) / 2
    shift = k - math.log2(row['scale']) if k is not None and row['kind'].endswith('_grad') else 0
    flushed = subnormal = over = 0.0
    for i, count in enumerate(row['counts']):
        low = row['lo'] + i + shift
        high = low + 1
        flushed += count * max(0.0, min(high, tiny) - low)
        subnormal += count * max(0.0, min(high, normal) - max(low, tiny))
        over += count * max(0.0, high - max(low, math.log2(limit)))
    largest = row['max'] * 2.0**shift if isinstance(row['max'], (int, float)) else math.nan
    if math.isfinite(largest):
        is_beyond = largest >= limit if infinite else largest > limit
        over = max(1.0, over) if is_beyond else 0.0
    nonzero = sum(row['counts'])
    return [nonzero, flushed, subnormal, nonzero - flushed - subnormal - over, over]
