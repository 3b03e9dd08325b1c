"""Indexing, scattering, joining, views, conversion."""
import torch
import torch.nn.functional as F

from golden import case, constant, given, mask, real, whole

case('gather', lambda x, i: torch.gather(x, 1, i), real(3, 4), whole(3, 5, high=3))
case('gather/first dimension', lambda x, i: torch.gather(x, 0, i), real(3, 4), whole(2, 3, high=2))
case('take_along_dim', lambda x, i: torch.take_along_dim(x, i, 1), real(3, 4), whole(3, 2, high=3))
case('take_along_dim/flat', torch.take_along_dim, real(3, 4), whole(5, high=11))
PLACES = given([[0, 2, 1, 3], [3, 1, 0, 2], [1, 0, 3, 2]])
case('scatter', lambda x, i, s: torch.scatter(x, 1, i, s), real(3, 5), PLACES, real(3, 4))
case('scatter/number', lambda x, i: torch.scatter(x, 1, i, 2.5), real(3, 5), PLACES)
case('scatter_add', lambda x, i, s: torch.scatter_add(x, 1, i, s), real(3, 5), whole(3, 7, high=4),
     real(3, 7))
case('scatter_add/in place', lambda x, i, s: (x * 1).scatter_add_(0, i, s), real(3, 5),
     whole(4, 2, high=2), real(4, 2))
case('index_add', lambda x, i, s: torch.index_add(x, 1, i, s, alpha=0.5), real(3, 4),
     whole(6, high=3), real(3, 6))
EDGES = given([[-1.0, -0.5, 0.25, 1.5], [-2.0, -2.0, 0.0, 1.0]])
case('searchsorted', torch.searchsorted, EDGES, real(2, 5))
case('searchsorted/right', lambda s, x: torch.searchsorted(s, x, right=True),
     given([1, 2, 2, 2, 5]), whole(2, 4, high=6))
case('searchsorted/sorter', lambda s, x: torch.searchsorted(s, x, sorter=torch.argsort(s)),
     constant(6), constant(4))
case('searchsorted/i32', lambda s, x: torch.searchsorted(s, x, out_int32=True), EDGES,
     constant(2, 3))
case('bucketize', lambda x, s: torch.bucketize(x, s), constant(3, 4), given([-1.0, 0.0, 1.0]))
case('bucketize/right', lambda x, s: torch.bucketize(x, s, right=True), whole(9),
     given([2, 4, 4, 8]))
case('isin', torch.isin, whole(3, 4), whole(5))
case('isin/inverted', lambda x, s: torch.isin(x, s, invert=True),
     given([0.0, float('nan'), 1.0, -2.0]), given([float('nan'), 1.0, 3.0]))
case('bincount', torch.bincount, whole(20))
case('bincount/weights', lambda x, w: torch.bincount(x, w, 12), whole(20), constant(20))
case('index_select', lambda x, i: torch.index_select(x, 1, i), real(3, 4), whole(6, high=3))
case('index', lambda x, i, j: x[i, j], real(3, 4, 2), whole(5, low=-3, high=2),
     whole(5, low=-4, high=3))
case('index/hole', lambda x, i: x[:, i], real(3, 4, 2), whole(2, 2, high=3))
case('index/mask', lambda x, m: x[m], real(3, 4), mask(3))
case('index_put', lambda x, v: torch.index_put(x, (torch.tensor([0, 2]), torch.tensor([1, 3])), v),
     real(3, 4), real(2))
case('index_put/accumulate', lambda x, i, v: torch.index_put(x, (i, ), v, accumulate=True),
     real(3, 4), whole(5, high=2), real(5, 4))
case('masked_select', torch.masked_select, real(3, 4), mask(3, 4))
case('nonzero', torch.nonzero, whole(3, 4, high=1))
case('embedding', F.embedding, whole(2, 3, high=4), real(5, 3))
case('embedding/padding, by frequency',
     lambda i, w: F.embedding(i, w, padding_idx=1, scale_grad_by_freq=True), whole(9, high=4),
     real(5, 2))
case('cat', lambda *x: torch.cat(x, 1), real(2, 3), real(2, 1), real(2, 2))
case('stack', lambda *x: torch.stack(x, 1), real(2, 3), real(2, 3))
case('view', lambda x: x.view(4, -1), real(2, 2, 3))
case('permute', lambda x: x.permute(2, 0, 1), real(2, 3, 4))
case('expand', lambda x: x.expand(2, 3, 4), real(3, 1))
case('slice', lambda x: x[:, 1:6:2], real(2, 7))
case('select', lambda x: x.select(1, -1), real(2, 3, 4))
case('as_strided', lambda x: torch.as_strided(x, (2, 3), (1, 2), 1), real(3, 4))
case('to', lambda x: x.half(), real(3, 4))
case('clone', torch.clone, real(3, 4))
case('copy', lambda x: torch.zeros(2, 3, dtype=x.dtype).copy_(x), real(3))
case('fill', lambda x: (x * 1).fill_(2), real(3, 4))
