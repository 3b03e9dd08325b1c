"""Padding, blocks, resizing, sampling, diagonals, overwriting; and sequence losses."""
import torch
import torch.nn.functional as F

from golden import case, constant, distinct, given, mask, real, whole

case('pad', lambda x: F.pad(x, (1, 2)), real(2, 3))
case('pad/value, several dimensions', lambda x: F.pad(x, (1, 0, 2, 1), value=1.5), real(2, 3, 4))
case('pad/crop', lambda x: F.pad(x, (-1, 2, 1, -1)), real(3, 4))
for how, padding in (('reflect', (2, 1, 1, 3)), ('replicate', (2, 1, 0, 6)), ('circular', (3, 1, 4,
                                                                                           2))):
    case(f'pad/{how}', lambda x, h=how, p=padding: F.pad(x, p, mode=h), real(2, 3, 4, 5))
case('flip', lambda x: torch.flip(x, (0, -1)), real(2, 3, 4))
case('roll', lambda x: torch.roll(x, (2, -1), (0, 1)), real(3, 4))
case('roll/flat', lambda x: torch.roll(x, 14), real(3, 4))
case('repeat', lambda x: x.repeat(2, 1, 3), real(3, 2))
case('tile', lambda x: torch.tile(x, (2, 3)), real(2, 2, 2))
case('repeat_interleave', lambda x: torch.repeat_interleave(x, 3, 1), real(2, 3))
case('repeat_interleave/flat', lambda x: torch.repeat_interleave(x, 2), real(2, 3))
case('repeat_interleave/tensor', lambda x, n: torch.repeat_interleave(x, n, 0), real(4, 2),
     given([1, 0, 3, 2]))
case('diff', torch.diff, real(3, 5))
case('diff/options', lambda x, a, b: torch.diff(x, 2, 0, a, b), real(4, 2), real(1, 2), real(2, 2))
case('hstack', lambda a, b: torch.hstack((a, b)), real(2, 3), real(2, 1))
case('hstack/vectors', lambda a, b: torch.hstack((a, b)), real(3), real(2))
case('vstack', lambda a, b: torch.vstack((a, b)), real(3), real(2, 3))
case('unfold', lambda x: F.unfold(x, (2, 3)), real(2, 2, 3, 4))
case('unfold/options', lambda x: F.unfold(x, 2, 2, 1, (2, 1)), real(2, 2, 5, 4))
case('fold', lambda x: F.fold(x, (3, 4), (2, 3)), real(2, 12, 4))
case('fold/options', lambda x: F.fold(x, (5, 4), 2, 2, 1, (2, 1)), real(2, 8, 12))
case('pixel_shuffle', lambda x: F.pixel_shuffle(x, 2), real(2, 8, 2, 3))
case('pixel_unshuffle', lambda x: F.pixel_unshuffle(x, 3), real(2, 1, 6, 3))
case('diagonal', lambda x: x.diagonal(1), real(3, 4))
case('diagonal/outer dimensions', lambda x: x.diagonal(-1, 2, 0), real(2, 3, 4))
case('windows', lambda x: x.unfold(1, 3, 2), real(2, 8, 2))
case('tril', lambda x: torch.tril(x, 1), real(2, 4, 5))
case('triu', lambda x: torch.triu(x, -1), real(2, 4, 5))
case('diag', lambda x: torch.diag(x, -1), real(3))
case('diag/of a matrix', lambda x: torch.diag(x, 1), real(3, 4))
case('trace', torch.trace, real(3, 4))
case('one_hot', lambda x: F.one_hot(x, 5), whole(2, 3, high=4))

SPACE = {1: (2, 2, 5), 2: (2, 2, 4, 5), 3: (1, 2, 3, 4, 5)}
SIZES = {1: (8,), 2: (6, 3), 3: (5, 2, 7)}
for n, shape in SPACE.items():
    case(f'interpolate/nearest {n}', lambda x, s=SIZES[n]: F.interpolate(x, s), real(*shape))
    case(f'interpolate/nearest_exact {n}',
         lambda x, s=SIZES[n]: F.interpolate(x, s, mode='nearest-exact'),
         real(*shape))
    for corners in (False, True):
        mode = {1: 'linear', 2: 'bilinear', 3: 'trilinear'}[n]
        case(f'interpolate/{mode}{", corners" if corners else ""}',
             lambda x, s=SIZES[n], m=mode, c=corners: F.interpolate(x, s, mode=m, align_corners=c),
             real(*shape))
case('interpolate/bicubic', lambda x: F.interpolate(x, (6, 3), mode='bicubic'), real(2, 2, 4, 5))
case('interpolate/bicubic, corners',
     lambda x: F.interpolate(x, (6, 3), mode='bicubic', align_corners=True), real(2, 2, 4, 5))
case('interpolate/bilinear, antialias',
     lambda x: F.interpolate(x, (3, 8), mode='bilinear', antialias=True), real(1, 2, 7, 5))
case('interpolate/bicubic, antialias',
     lambda x: F.interpolate(x, (3, 8), mode='bicubic', antialias=True), real(1, 2, 8, 5))
case('interpolate/factor', lambda x: F.interpolate(x, scale_factor=(1.7, 0.6), mode='bilinear'),
     real(1, 2, 3, 5))
case('interpolate/factor of nearest', lambda x: F.interpolate(x, scale_factor=(1.7, 0.6)),
     real(1, 2, 3, 5))
case(
    'interpolate/factor, recomputed', lambda x: F.interpolate(
        x, scale_factor=(1.7, 0.6), mode='bicubic', recompute_scale_factor=True), real(1, 2, 3, 5))
case('upsample_nearest', lambda x: F.interpolate(x, scale_factor=2), real(1, 2, 3))
case('upsample_nearest_exact', lambda x: F.interpolate(x, scale_factor=2, mode='nearest-exact'),
     real(1, 2, 3, 2))
case('upsample_linear', lambda x: F.interpolate(x, scale_factor=2, mode='linear'), real(1, 2, 3))
case('upsample_bilinear', lambda x: F.interpolate(x, scale_factor=2, mode='bilinear'),
     real(1, 2, 3, 2))
case('upsample_trilinear', lambda x: F.interpolate(x, scale_factor=2, mode='trilinear'),
     real(1, 1, 2, 3, 2))
case('upsample_bicubic', lambda x: F.interpolate(x, scale_factor=2, mode='bicubic'),
     real(1, 2, 3, 2))

for around in ('zeros', 'border', 'reflection'):
    for corners in (False, True):
        ends = ', corners' if corners else ''
        for how in ('bilinear', 'nearest', 'bicubic'):
            case(f'grid_sample/{how}, {around}{ends}',
                 lambda x, g, h=how, a=around, c=corners: F.grid_sample(x, g, h, a, c),
                 real(2, 2, 3, 4),
                 real(2, 4, 5, 2, low=-1.6, high=1.6))
        case(f'grid_sample/trilinear, {around}{ends}',
             lambda x, g, a=around, c=corners: F.grid_sample(x, g, 'bilinear', a, c),
             real(1, 2, 2, 3, 4),
             real(1, 2, 3, 2, 3, low=-1.6, high=1.6))
case('affine_grid', lambda x: F.affine_grid(x, (2, 1, 3, 4), align_corners=False), real(2, 2, 3))
case('affine_grid/corners', lambda x: F.affine_grid(x, (1, 1, 2, 3, 4), align_corners=True),
     real(1, 3, 4))

ROWS = given([2, 0])
case('index_copy', lambda x, i, s: torch.index_copy(x, 1, i, s), real(3, 4), ROWS, real(3, 2))
case('index_copy/in place', lambda x, i, s: (x * 1).index_copy_(0, i, s), real(3, 4), ROWS,
     real(2, 4))
case('index_fill', lambda x, i, v: torch.index_fill(x, 1, i, v), real(3, 4), ROWS, real())
case('index_fill/number', lambda x, i: torch.index_fill(x, 0, i, 2.5), real(3, 4), ROWS)
case('masked_scatter', torch.masked_scatter, real(3, 4), mask(3, 4), real(12))
case('unique', lambda x: torch.unique(x, return_inverse=True, return_counts=True),
     whole(3, 5, high=4))
case('cummax', lambda x: torch.cummax(x, 1), distinct(3, 6))
case('cummax/ties', lambda x: torch.cummax(x, 0), whole(9, 2, high=2))
case('cummin', lambda x: torch.cummin(x, 0), distinct(6, 3))
case('median', torch.median, distinct(3, 4))
case('median/one dimension', lambda x: torch.median(x, 0), distinct(6, 3))
case('median/keepdim', lambda x: torch.median(x, 1, True), distinct(3, 5))
case('median/nan', torch.median, given([1.0, float('nan'), 3.0]))

CTC = (real(5, 3, 4), given([[1, 2, 2], [3, 1, 1], [2, 1, 1]]), given([5, 4, 5]), given([3, 1, 2]))
for reduction in ('none', 'sum', 'mean'):
    case(f'ctc_loss/{reduction}',
         lambda x, t, i, l, r=reduction: F.ctc_loss(torch.log_softmax(x, -1), t, i, l, reduction=r),
         *CTC)
case('ctc_loss/in a row, another blank',
     lambda x, t, i, l: F.ctc_loss(torch.log_softmax(x, -1), t, i, l, blank=3), real(5, 2, 4),
     given([1, 0, 2]), given([5, 4]), given([2, 1]))
case('ctc_loss/impossible, free',
     lambda x, t, i, l: F.ctc_loss(torch.log_softmax(x, -1), t, i, l, zero_infinity=True),
     real(2, 2, 3), given([[1, 1], [1, 2]]), given([2, 2]), given([2, 2]))

case('local_response_norm', lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 2.0), real(2, 5, 3))
case('local_response_norm/even', lambda x: F.local_response_norm(x, 4), real(1, 5, 2, 2))
case('lp_pool1d', lambda x: F.lp_pool1d(x, 3, 2), real(2, 2, 5, low=0.1))
case('lp_pool2d', lambda x: F.lp_pool2d(x, 2, (2, 3), 1), real(1, 2, 4, 5))
case('lp_pool2d/ceil', lambda x: F.lp_pool2d(x, 2, 2, ceil_mode=True), real(1, 2, 3, 5))
# Written out: the PyTorch version that made these files has no lp_pool3d.
case('lp_pool3d', lambda x: (F.avg_pool3d(x * x, 2) * 8).sqrt(), real(1, 2, 2, 4, 5))
case('max_unpool1d', lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
     distinct(2, 2, 6))
case(
    'max_unpool2d', lambda x: F.max_unpool2d(
        *F.max_pool2d(x, 3, 2, 1, return_indices=True), 3, 2, 1, output_size=x.shape[-2:]),
    distinct(1, 2, 6, 5))
case('max_unpool3d', lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2),
     distinct(1, 2, 2, 4, 2))
