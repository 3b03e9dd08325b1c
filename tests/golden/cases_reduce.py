"""Reductions, scans, softmax, norms of vectors and matrices, distances, sorting."""
import torch
import torch.nn.functional as F

from golden import case, constant, distinct, given, mask, positive, real, whole

for name in ('sum', 'mean'):
    f = getattr(torch, name)
    case(name, f, real(3, 4))
    case(f'{name}/0-dim', f, real())
    case(f'{name}/one dimension', lambda x, f=f: f(x, 1), real(2, 3, 4))
    case(f'{name}/two dimensions', lambda x, f=f: f(x, (0, 2), keepdim=True), real(2, 3, 4))
case('sum/integers', torch.sum, whole(3, 4))
case('sum/bool', torch.sum, mask(3, 4))
case('prod', torch.prod, real(3, 4))
case('prod/one dimension', lambda x: torch.prod(x, 1), real(2, 3, 4))
case('prod/one zero', torch.prod, given([1., 0., 3., 4.], True))
case('prod/two zeros', torch.prod, given([1., 0., 0., 4.], True))
case('prod/integers', torch.prod, whole(5, low=1))
for name in ('var', 'std'):
    f = getattr(torch, name)
    case(name, f, real(3, 4))
    case(f'{name}/one dimension', lambda x, f=f: f(x, 1), real(2, 5, 3))
    case(f'{name}/biased, keepdim',
         lambda x, f=f: f(x, (0, 1), unbiased=False, keepdim=True),
         real(2, 5, 3))
for name in ('amax', 'amin'):
    f = getattr(torch, name)
    case(name, lambda x, f=f: f(x, (0, 1)), distinct(3, 4))
    case(f'{name}/keepdim', lambda x, f=f: f(x, 1, keepdim=True), distinct(2, 5, 3))
    case(f'{name}/ties', lambda x, f=f: f(x, 0), given([1., 2., 2., 1., 1.], True))
for name in ('max', 'min'):
    f = getattr(torch, name)
    case(name, f, distinct(3, 4))
    case(f'{name}/one dimension', lambda x, f=f: f(x, 1), distinct(2, 5, 3))
    case(f'{name}/nan',
         lambda x, f=f: f(x, 0),
         given([[1., 5., float('nan')], [4., float('nan'), 0.]]))
for name in ('argmax', 'argmin'):
    case(name, getattr(torch, name), distinct(3, 4))
    case(f'{name}/one dimension',
         lambda x, f=getattr(torch, name): f(x, 1, keepdim=True),
         distinct(2, 5, 3))
case('all', lambda x: x.all(), mask(3, 4))
case('all/one dimension', lambda x: x.all(1), mask(6, 2))
case('any', lambda x: x.any(), mask(3, 4))
case('any/one dimension', lambda x: x.any(1), mask(6, 2))
case('count_nonzero', torch.count_nonzero, whole(3, 4, high=2))
case('count_nonzero/one dimension', lambda x: torch.count_nonzero(x, 0), whole(3, 4, high=2))
case('cumsum', lambda x: torch.cumsum(x, 1), real(3, 5))
case('cumsum/first dimension', lambda x: torch.cumsum(x, 0), real(4, 2, 2))
case('cumsum/integers', lambda x: torch.cumsum(x, 0), whole(6))
case('cumprod', lambda x: torch.cumprod(x, 1), real(3, 5))
case('cumprod/zeros', lambda x: torch.cumprod(x, 1),
     given([[1., 2., 0., 3., 4.], [0., 2., 0., 1., 5.]], True))
for name in ('softmax', 'log_softmax', 'softmin'):
    f = getattr(F, name)
    case(name, lambda x, f=f: f(x, dim=1), real(3, 5))
    case(f'{name}/first dimension', lambda x, f=f: f(x, dim=0), real(4, 3, 2, low=-9, high=9))
    case(f'{name}/large', lambda x, f=f: f(x, dim=0), given([1000., 1001., -1000.], True))
case('logsumexp', lambda x: torch.logsumexp(x, 1), real(3, 5))
case('logsumexp/two dimensions', lambda x: torch.logsumexp(x, (0, 2), keepdim=True), real(2, 3, 4))
case('logsumexp/infinities', lambda x: torch.logsumexp(x, 1),
     given([[float('-inf')] * 2, [float('inf'), 1.], [2., float('-inf')]]))

for p in (0, 0.5, 1, 2, 3.5, float('inf'), float('-inf')):
    case(f'vector_norm/p {p}', lambda x, p=p: torch.linalg.vector_norm(x, p, 1), distinct(3, 5))
case('vector_norm', torch.linalg.vector_norm, real(3, 4))
case('vector_norm/of zeros', lambda x: torch.linalg.vector_norm(x, 2, 1),
     given([[0., 0.], [3., 4.]], True))
case('norm', torch.norm, real(3, 4))
case('norm/p 3', lambda x: torch.norm(x, 3, 1, keepdim=True), real(3, 4))
for order in ('fro', 1, -1, float('inf'), float('-inf')):
    case(f'matrix_norm/{order}',
         lambda x, order=order: torch.linalg.matrix_norm(x, order),
         distinct(2, 3, 4))
case('normalize', F.normalize, real(3, 4))
case('normalize/p 1', lambda x: F.normalize(x, 1, 0), real(3, 4))
case('normalize/small', lambda x: F.normalize(x, eps=10.), real(3, 4))
case('dist', torch.dist, real(3, 4), real(3, 4))
case('dist/p 1', lambda a, b: torch.dist(a, b, 1), real(3, 4), real(4))
case('pairwise_distance', F.pairwise_distance, real(3, 4), real(3, 4))
case('pairwise_distance/p 1', lambda a, b: F.pairwise_distance(a, b, 1., keepdim=True), real(3, 4),
     real(3, 4))
case('cosine_similarity', F.cosine_similarity, real(3, 4), real(3, 4))
case('cosine_similarity/first dimension', lambda a, b: F.cosine_similarity(a, b, 0, 1e-3),
     real(3, 4), real(3, 1))
for p in (0, 1, 2, 3, float('inf')):
    case(f'cdist/p {p}', lambda a, b, p=p: torch.cdist(a, b, p), real(2, 4, 3), real(2, 5, 3))
    case(f'pdist/p {p}', lambda x, p=p: F.pdist(x, p), real(5, 3))
case('cdist/large', torch.cdist, real(27, 2), real(3, 2))
case('renorm', lambda x: torch.renorm(x, 2, 0, 2.), real(4, 3))
case('renorm/p 1', lambda x: torch.renorm(x, 1, 1, 3.), real(4, 3))

case('sort', torch.sort, distinct(3, 5))
case('sort/descending', lambda x: torch.sort(x, 0, descending=True), distinct(4, 3))
case('sort/stable', lambda x: torch.sort(x, stable=True), whole(20, high=3))
case('argsort', torch.argsort, distinct(3, 5))
case('topk', lambda x: torch.topk(x, 2), distinct(3, 5))
case('topk/smallest', lambda x: torch.topk(x, 3, 0, largest=False), distinct(5, 2))
case('quantile', lambda x: torch.quantile(x, 0.3), distinct(3, 5))
case('quantile/shares', lambda x, q: torch.quantile(x, q, 1, keepdim=True), distinct(3, 5),
     real(3, low=0.1, high=0.9))
for how in ('lower', 'higher', 'midpoint', 'nearest'):
    case(f'quantile/{how}', lambda x, h=how: torch.quantile(x, 0.4, 0, interpolation=h),
         distinct(5, 2))
case('kthvalue', lambda x: torch.kthvalue(x, 2), distinct(3, 5))
case('kthvalue/keepdim', lambda x: torch.kthvalue(x, 1, 0, keepdim=True), distinct(4, 3))
