"""Matrix and tensor products, and normalisation."""
import torch
import torch.nn.functional as F

from golden import case, constant, positive, real

for name, shapes in {
        '': [(3, 4), (4, 5)],
        'vectors': [(4, ), (4, )],
        'matrix, vector': [(3, 4), (4, )],
        'vector, matrix': [(3, ), (3, 2)],
        'batches': [(2, 1, 3, 4), (5, 4, 2)],
        'inner 0': [(3, 0), (0, 2)],
        'batch, vector': [(2, 3, 4), (4, )]
}.items():
    case('matmul' + ('/' + name if name else ''), torch.matmul, *(real(*shape) for shape in shapes))
case('mm', torch.mm, real(3, 4), real(4, 5))
case('bmm', torch.bmm, real(2, 3, 4), real(2, 4, 5))
case('mv', torch.mv, real(3, 4), real(4))
case('dot', torch.dot, real(7), real(7))
case('vecdot', lambda a, b: torch.linalg.vecdot(a, b), real(3, 4), real(3, 4))
case('mul/outer', torch.outer, real(3), real(4))
for name, shapes in {
        'addmm': [(3, 5), (3, 4), (4, 5)],
        'addmv': [(3, ), (3, 4), (4, )],
        'addr': [(3, 4), (3, ), (4, )],
        'addbmm': [(3, 5), (2, 3, 4), (2, 4, 5)],
        'baddbmm': [(2, 3, 5), (2, 3, 4), (2, 4, 5)]
}.items():
    f = getattr(torch, name)
    case(name, f, *(real(*shape) for shape in shapes))
    case(f'{name}/factors',
         lambda c, a, b, f=f: f(c, a, b, beta=0.5, alpha=-2),
         *(real(*shape) for shape in shapes))
    case(f'{name}/in place',
         lambda c, a, b, f=getattr(torch.Tensor, name + '_'): f(c * 1, a, b),
         *(real(*shape) for shape in shapes))
case('addmm/broadcast', torch.addmm, real(5), real(3, 4), real(4, 5))
case('linear', F.linear, real(2, 3, 4), real(5, 4), real(5))
case('linear/without bias', F.linear, real(4), real(5, 4))
case('mlp', lambda x, *p: F.linear(F.relu(F.linear(F.relu(F.linear(x, *p[:2])), *p[2:4])), *p[4:]),
     real(4, 5), real(7, 5), real(7), real(6, 7), real(6), real(3, 6), real(3))
for name, form in {'gelu': 'none', 'gelu_tanh': 'tanh'}.items():
    case(f'mlp/{name}',
         lambda x, v, a, w, b, form=form: F.linear(F.gelu(F.linear(x, v, a), approximate=form), w, b
                                                   ),
         real(4, 5),
         real(8, 5),
         real(8),
         real(3, 8),
         real(3))
case('mlp/sigmoid', lambda x, v, w: F.linear(x, v).sigmoid().matmul(w.t()).sigmoid(), real(4, 5),
     real(7, 5), real(3, 7))
case('bilinear', F.bilinear, real(2, 3), real(2, 4), real(5, 3, 4), real(5))
case('bilinear/without bias', F.bilinear, real(2, 2, 3), real(2, 2, 4), real(5, 3, 4))
case('chain_matmul', torch.chain_matmul, real(3, 2), real(2, 5), real(5, 4))
case('multi_dot', lambda *x: torch.linalg.multi_dot(x), real(3, 2), real(2, 5), real(5, 4), real(4))
case('tensordot', lambda a, b: torch.tensordot(a, b, 2), real(2, 3, 4), real(3, 4, 5))
case('tensordot/dimensions', lambda a, b: torch.tensordot(a, b, ([0, 2], [1, 0])), real(2, 3, 4),
     real(4, 2, 5))
case('cross', lambda a, b: torch.linalg.cross(a, b), real(2, 3), real(2, 3))
case('cross/dimension', lambda a, b: torch.linalg.cross(a, b, dim=0), real(3, 2), real(3, 1))
EINSUM = {
    'ij,jk->ik': [(3, 4), (4, 5)],
    'ij,jk': [(3, 4), (4, 5)],
    'bij,bjk->bik': [(2, 3, 4), (2, 4, 5)],
    'ii->i': [(3, 3)],
    'ii': [(3, 3)],
    'ij->ji': [(3, 4)],
    'i,j->ij': [(3, ), (4, )],
    '...ij,...jk->...ik': [(2, 3, 4), (4, 5)],
    'bn,anm,bm->ba': [(2, 3), (5, 3, 4), (2, 4)],
    'ij->': [(3, 4)],
    'bhqd,bhkd->bhqk': [(1, 2, 3, 4), (1, 2, 5, 4)]
}
for equation, shapes in EINSUM.items():
    case(f'einsum/{equation}',
         lambda *x, equation=equation: torch.einsum(equation, *x),
         *(real(*shape) for shape in shapes))


def training(norm):
    """Returns a call of a norm whose results include the running statistics that it updates."""
    def call(x, mean, var, *affine):
        mean, var = mean.clone(), var.clone()
        return norm(x, mean, var, *affine), mean, var
    return call


STATISTICS = (constant(3), constant(3, low=0.2, high=2))
for name, shape in {'': (4, 3, 2), '2-D': (5, 3), '4-D': (2, 3, 2, 2)}.items():
    variant = '/' + name if name else ''
    case(f'batch_norm{variant}', lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), real(*shape),
         *STATISTICS, real(3), real(3))
    case(f'batch_norm/training {name}',
         training(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, True, 0.3, 1e-3)), real(*shape),
         *STATISTICS, real(3), real(3))
case('batch_norm/without statistics', lambda x: F.batch_norm(x, None, None, training=True),
     real(4, 3, 2))
for name, shape in {'': (4, 3, 2), '4-D': (2, 3, 2, 2)}.items():
    variant = ' ' + name if name else ''
    case(f'batch_norm_relu/training{variant}',
         training(lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v, w, b, True, 0.3, 1e-3))),
         real(*shape), *STATISTICS, real(3), real(3))
    case(f'batch_norm_relu/residual{variant}',
         lambda x, r, m, v, w, b: F.relu(F.batch_norm(x, m, v, w, b) + r), real(*shape),
         real(*shape), *STATISTICS, real(3), real(3))
case('batch_norm_relu/residual, training',
     lambda x, r: F.relu(F.batch_norm(x, None, None, training=True) + r), real(4, 3, 2),
     real(4, 3, 2))
case('instance_norm', lambda x, w, b: F.instance_norm(x, weight=w, bias=b), real(2, 3, 5), real(3),
     real(3))
case('instance_norm/statistics', lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False),
     real(2, 3, 5), *STATISTICS)
case('instance_norm/updates', training(lambda x, m, v: F.instance_norm(x, m, v, momentum=0.2)),
     real(2, 3, 2, 2), *STATISTICS)
case('group_norm', lambda x, w, b: F.group_norm(x, 2, w, b), real(2, 4, 3), real(4), real(4))
case('group_norm/plain', lambda x: F.group_norm(x, 3, eps=0.1), real(2, 6))
case('layer_norm', lambda x, w, b: F.layer_norm(x, (4,), w, b), real(2, 3, 4), real(4), real(4))
case('layer_norm/two dimensions', lambda x, w: F.layer_norm(x, (3, 4), w, eps=0.1), real(2, 3, 4),
     real(3, 4))
case('rms_norm', lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3) * w,
     real(3, 4), real(4))
