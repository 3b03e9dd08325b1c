"""Elementwise functions, activations, arithmetic, comparison, selection."""
import torch
import torch.nn.functional as F

from golden import case, constant, given, mask, positive, real, whole

INF, NAN = float('inf'), float('nan')

UNARY = {
    'abs': (-2, 2),
    'acos': (-.9, .9),
    'acosh': (1.1, 4),
    'asin': (-.9, .9),
    'asinh': (-3, 3),
    'atan': (-3, 3),
    'atanh': (-.9, .9),
    'ceil': (-3, 3),
    'cos': (-4, 4),
    'cosh': (-2, 2),
    'erf': (-2, 2),
    'erfc': (-2, 2),
    'erfinv': (-.9, .9),
    'exp': (-3, 3),
    'exp2': (-3, 3),
    'expm1': (-1, 1),
    'floor': (-3, 3),
    'frac': (-3, 3),
    'log': (.1, 4),
    'log10': (.1, 4),
    'log1p': (-.8, 4),
    'log2': (.1, 4),
    'logit': (.05, .95),
    'neg': (-2, 2),
    'reciprocal': (.2, 3),
    'round': (-3, 3),
    'rsqrt': (.2, 3),
    'sigmoid': (-6, 6),
    'sign': (-2, 2),
    'sin': (-4, 4),
    'sinh': (-2, 2),
    'sqrt': (.2, 3),
    'square': (-2, 2),
    'tan': (-1.2, 1.2),
    'tanh': (-3, 3),
    'trunc': (-3, 3),
    'relu': (-2, 2),
}
for name, (low, high) in UNARY.items():
    case(name, getattr(torch, name), real(3, 4, low=low, high=high))
    if name not in ('acosh', 'asinh', 'atanh'):  # PyTorch cannot differentiate those
        case(f'{name}/in place',
             lambda x, f=getattr(torch.Tensor, name + '_'): f(x * 1),
             real(5, low=low, high=high))
EDGES = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-30, -80.0, 80.0]
for name in ('abs', 'asinh', 'atan', 'ceil', 'erf', 'erfc', 'exp', 'exp2', 'expm1', 'floor', 'log',
             'log1p', 'reciprocal', 'round', 'rsqrt', 'sign', 'sqrt', 'tanh', 'trunc', 'sigmoid'):
    # PyTorch's sign of nan is 0, ours is nan
    case(f'{name}/edges', getattr(torch, name), given(EDGES if name != 'sign' else EDGES[:6]))
case('logit/limited', lambda x: torch.logit(x, 0.25), real(7, low=.05, high=.95))
case('round/halves', torch.round, given([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]))

for name in ('elu', 'celu'):
    case(name, getattr(F, name), real(3, 4))
    case(f'{name}/alpha', lambda x, f=getattr(F, name): f(x, 0.5), real(3, 4))
case('gelu', F.gelu, real(3, 4))
case('gelu/tanh', lambda x: F.gelu(x, approximate='tanh'), real(3, 4))
case('glu', F.glu, real(3, 4))
case('glu/first dimension', lambda x: F.glu(x, 0), real(4, 3))
case('hardshrink', F.hardshrink, real(3, 4))
case('hardshrink/lambda', lambda x: F.hardshrink(x, 1.0), real(3, 4))
case('hardsigmoid', F.hardsigmoid, real(3, 4, low=-5, high=5))
case('hardswish', F.hardswish, real(3, 4, low=-5, high=5))
case('hardtanh', F.hardtanh, real(3, 4))
case('hardtanh/bounds', lambda x: F.hardtanh(x, -0.5, 1.5), real(3, 4))
case('leaky_relu', F.leaky_relu, real(3, 4))
case('leaky_relu/slope', lambda x: F.leaky_relu(x, 0.2), real(3, 4))
case('logsigmoid', F.logsigmoid, real(3, 4, low=-6, high=6))
case('mish', F.mish, real(3, 4))
case('prelu', F.prelu, real(2, 3, 4), real(3))
case('prelu/one slope', F.prelu, real(2, 3, 4), real(1))
case('relu6', F.relu6, real(3, 4, low=-2, high=9))
case('selu', F.selu, real(3, 4))
case('silu', F.silu, real(3, 4))
case('softplus', F.softplus, real(3, 4))
case('softplus/options', lambda x: F.softplus(x, beta=2, threshold=1), real(3, 4))
case('softshrink', F.softshrink, real(3, 4))
case('softshrink/lambda', lambda x: F.softshrink(x, 1.0), real(3, 4))
case('softsign', F.softsign, real(3, 4))
case('tanhshrink', F.tanhshrink, real(3, 4))
case('threshold', lambda x: F.threshold(x, 0.5, -3), real(3, 4))
case('dropout/outside training', lambda x: F.dropout(x, 0.5, training=False), real(3, 4))

for name in ('add', 'sub', 'mul', 'div', 'maximum', 'minimum', 'atan2', 'fmod', 'remainder'):
    f = getattr(torch, name)
    case(name, f, real(3, 4), real(3, 4))
    case(f'{name}/broadcast', f, real(2, 1, 3), positive(4, 1))
    case(f'{name}/integers',
         lambda a, b, f=f: f(a, b),
         whole(7, low=-9, high=9),
         whole(7, low=1, high=5))
for name in ('add', 'sub', 'mul', 'div', 'fmod', 'remainder', 'atan2'):
    case(f'{name}/in place',
         lambda a, b, f=getattr(torch.Tensor, name + '_'): f(a * 1, b),
         real(3, 4),
         positive(4))
case('logaddexp', torch.logaddexp, real(3, 4), real(3, 4))
case('logaddexp/broadcast', torch.logaddexp, real(2, 1, 3), real(4, 1, low=-90, high=90))
NOT_NUMBERS = given([0.5, float('nan'), float('inf'), -float('inf'), -2.0], True)
case('nan_to_num', torch.nan_to_num, NOT_NUMBERS)
case('nan_to_num/numbers', lambda x: torch.nan_to_num(x, 1.5, 7, -9), NOT_NUMBERS)
case('add/alpha', lambda a, b: torch.add(a, b, alpha=0.3), real(3, 4), real(4))
case('sub/alpha', lambda a, b: torch.sub(a, b, alpha=-2), real(3, 4), real(4))
case('rsub', torch.rsub, real(3, 4), real(4))
case('rsub/alpha', lambda a, b: torch.rsub(a, b, alpha=0.5), real(3, 4), real(3, 1))
case('div/floor', lambda a, b: torch.div(a, b, rounding_mode='floor'), real(3, 4), positive(3, 4))
case('trunc_divide', lambda a, b: torch.div(a, b, rounding_mode='trunc'), real(3, 4),
     positive(3, 4))
case('floor_divide', torch.floor_divide, constant(3, 4), constant(3, 4, low=.1, high=3))
case('floor_divide/integers', torch.floor_divide, whole(9, low=-9, high=9),
     given([2, -2, 3, -3, 4, -4, 5, 1, -1]))
case('lerp', torch.lerp, real(3, 4), real(3, 4), real(3, 4, low=-.5, high=1.5))
case('lerp/number', lambda a, b: torch.lerp(a, b, 0.75), real(3, 4), real(4))
case('addcmul', lambda x, a, b: torch.addcmul(x, a, b, value=0.5), real(3, 4), real(4), real(3, 1))
case('addcdiv', lambda x, a, b: torch.addcdiv(x, a, b, value=-2), real(3, 4), real(4),
     positive(3, 1))
case('addcmul/in place', lambda x, a, b: (x * 1).addcmul_(a, b), real(3, 4), real(4), real(3, 1))
case('addcdiv/in place', lambda x, a, b: (x * 1).addcdiv_(a, b), real(3, 4), real(4),
     positive(3, 1))
case('pow', torch.pow, positive(3, 4), real(3, 4))
case('pow/square', lambda x: torch.pow(x, 2), real(3, 4))
case('pow/root', lambda x: torch.pow(x, 0.5), positive(3, 4))
case('pow/number', lambda x: torch.pow(x, -1.7), positive(3, 4))
case('pow/of a number', lambda x: torch.pow(2.5, x), real(3, 4))
case('pow/integers', torch.pow, whole(6, low=-4, high=4), whole(6, low=0, high=5))
case('pow/edges', torch.pow, given([0., 0., NAN, -1., -8., INF, 2., -0.]),
     given([0., 2., 0., 3., .5, -1., NAN, -1.]))
case('rdiv', lambda x: 3 / x, positive(3, 4))
case('clamp', lambda x: torch.clamp(x, -0.5, 1.0), real(3, 4))
case('clamp/above', lambda x: torch.clamp(x, max=0.3), real(3, 4))
case('clamp/tensors', lambda x, a, b: torch.clamp(x, a, b), real(3, 4), real(4, low=-2, high=0),
     real(4, low=0, high=2))
case('masked_fill', lambda x, m: x.masked_fill(m, 1.5), real(3, 4), mask(3, 4))
case('masked_fill/tensor', lambda x, m, v: x.masked_fill(m, v), real(3, 4), mask(4), real())
case('where', torch.where, mask(3, 1), real(3, 4), real(4))

for name in ('eq', 'ne', 'lt', 'le', 'gt', 'ge'):
    case(name, getattr(torch, name), given([1., 2., 3., NAN, INF, 0.]),
         given([1., 3., 2., NAN, INF, -0.]))
    case(f'{name}/integers', getattr(torch, name), whole(9, high=3), whole(9, high=3))
for name in ('logical_and', 'logical_or', 'logical_xor'):
    case(name, getattr(torch, name), given([0., 1., 0., 2., NAN]), given([0., 0., 3., 4., 1.]))
case('logical_not', torch.logical_not, given([0., 1., NAN, -0.]))
for name in ('bitwise_and', 'bitwise_or', 'bitwise_xor'):
    case(name, getattr(torch, name), whole(9, low=-20, high=20), whole(9, low=-20, high=20))
    case(f'{name}/bool', getattr(torch, name), mask(9), mask(9))
case('bitwise_not', torch.bitwise_not, whole(9, low=-20, high=20))
for name in ('isnan', 'isinf', 'isfinite'):
    case(name, getattr(torch, name), given([0., 1., INF, -INF, NAN]))
