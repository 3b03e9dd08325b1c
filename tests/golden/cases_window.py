"""Ops on sliding windows: convolution, pooling."""
import torch
import torch.nn.functional as F

from golden import case, distinct, real

case('conv1d', F.conv1d, real(2, 3, 7), real(4, 3, 3), real(4))
case('conv1d/options', lambda x, w: F.conv1d(x, w, stride=2, padding=2, dilation=2, groups=2),
     real(2, 4, 9), real(6, 2, 3))
case('conv1d/same', lambda x, w: F.conv1d(x, w, padding='same', dilation=2), real(1, 2, 6),
     real(3, 2, 3))
case('conv1d/unbatched', F.conv1d, real(3, 7), real(2, 3, 2), real(2))
case('conv2d', F.conv2d, real(2, 3, 5, 6), real(4, 3, 3, 2), real(4))
case('conv2d/options', lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
     real(1, 4, 6, 5), real(4, 2, 3, 2), real(4))
case('conv2d/depthwise', lambda x, w: F.conv2d(x, w, padding=1, groups=3), real(1, 3, 4, 4),
     real(3, 1, 3, 3))
case('conv2d/one by one', F.conv2d, real(2, 3, 3, 3), real(2, 3, 1, 1))
case('conv3d', F.conv3d, real(1, 2, 3, 4, 3), real(2, 2, 2, 2, 2), real(2))
case('conv3d/options', lambda x, w: F.conv3d(x, w, stride=2, padding=1), real(1, 2, 3, 4, 3),
     real(2, 2, 3, 2, 2))
case('conv_transpose1d', F.conv_transpose1d, real(2, 3, 4), real(3, 2, 3), real(2))
case(
    'conv_transpose1d/options', lambda x, w: F.conv_transpose1d(
        x, w, stride=3, padding=1, output_padding=2, groups=2, dilation=2), real(1, 4, 4),
    real(4, 3, 3))
case('conv_transpose2d', F.conv_transpose2d, real(1, 3, 3, 4), real(3, 2, 2, 3), real(2))
case('conv_transpose2d/options', lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
     real(1, 3, 3, 3), real(3, 2, 3, 3), real(2))
case('conv_transpose3d', F.conv_transpose3d, real(1, 2, 2, 3, 2), real(2, 2, 2, 2, 2), real(2))
case('conv_transpose3d/options', lambda x, w: F.conv_transpose3d(x, w, stride=2, padding=1),
     real(1, 2, 2, 3, 2), real(2, 2, 3, 3, 2))

SPACE = {1: (2, 3, 9), 2: (1, 2, 7, 6), 3: (1, 2, 5, 4, 6)}
for n, shape in SPACE.items():
    largest, mean = getattr(F, f'max_pool{n}d'), getattr(F, f'avg_pool{n}d')
    case(f'max_pool{n}d', lambda x, f=largest: f(x, 2), distinct(*shape))
    case(f'max_pool{n}d/options',
         lambda x, f=largest: f(x, 3, 2, 1, 2 if x.shape[-1] > 6 else 1, True, True),
         distinct(*shape))
    case(f'avg_pool{n}d', lambda x, f=mean: f(x, 2), real(*shape))
    case(f'avg_pool{n}d/options', lambda x, f=mean: f(x, 3, 2, 1, True, False), real(*shape))
    case(f'adaptive_avg_pool{n}d',
         lambda x, f=getattr(F, f'adaptive_avg_pool{n}d'): f(x, 4),
         real(*shape))
    case(f'adaptive_max_pool{n}d',
         lambda x, f=getattr(F, f'adaptive_max_pool{n}d'): f(x, 3, return_indices=True),
         distinct(*shape))
case('avg_pool2d/divisor', lambda x: F.avg_pool2d(x, (3, 2), (1, 2), divisor_override=5),
     real(1, 2, 5, 4))
