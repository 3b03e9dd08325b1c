"""Solutions of linear equations, determinants and factorisations of matrices.

Singular vectors and eigenvectors have arbitrary signs, so results hold their squares, and products
in which the signs cancel.
"""
import torch

from golden import Spec, case, given, real, uniform

linalg = torch.linalg


def regular(*shape):
    """Well-conditioned matrices with separate singular values, and a gradient."""
    def draw(generator):
        m, n = shape[-2:]
        diagonal = torch.eye(m, n) * (torch.arange(n) + 3.)
        return uniform(generator, shape, -2., 2.) / max(m, n) + diagonal
    return Spec(draw, True)


def definite(*shape):
    """Symmetric positive definite matrices with separate eigenvalues, and a gradient."""
    def draw(generator):
        x = regular(*shape).draw(generator)
        return x + x.mT
    return Spec(draw, True)


for name, shapes in {
        '': [(4, 4), (4, 3)],
        'vector': [(4, 4), (4, )],
        'vectors': [(2, 3, 3), (2, 3)],
        'batches': [(2, 1, 3, 3), (4, 3, 2)],
        'one matrix': [(3, 3), (2, 3, 2)]
}.items():
    variant = '/' + name if name else ''
    case('solve' + variant, linalg.solve, regular(*shapes[0]), real(*shapes[1]))
SQUARES = {'': (4, 4), '1 by 1': (1, 1), 'batch': (2, 2, 3, 3), '20 by 20': (20, 20)}
for name, shape in SQUARES.items():
    variant = '/' + name if name else ''
    case('inv' + variant, linalg.inv, regular(*shape))
    case('det' + variant, linalg.det, regular(*shape))
    case('slogdet' + variant, linalg.slogdet, regular(*shape))
    case('cholesky' + variant, linalg.cholesky, definite(*shape))
    case('eigvalsh' + variant, linalg.eigvalsh, definite(*shape))
case('slogdet/negative', lambda x: linalg.slogdet(-x), regular(3, 3))
case('cholesky/upper', lambda x: linalg.cholesky(x, upper=True), definite(4, 4))


def eigenvectors(x, uplo='L'):
    values, vectors = linalg.eigh(x, UPLO=uplo)
    return values, vectors * vectors, (vectors * torch.exp(-values).unsqueeze(-2)) @ vectors.mT


def singular_vectors(x, full):
    u, s, vh = linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    return s, u * u, vh * vh, u @ vh


case('eigh', eigenvectors, definite(4, 4))
case('eigh/batch', eigenvectors, definite(2, 3, 3))
case('eigh/upper', lambda x: eigenvectors(x, 'U'), definite(4, 4))
case('eigh/triangle', eigenvectors, regular(4, 4))
ANY_SIZE = {'': (4, 4), 'tall': (5, 3), 'wide': (3, 5), 'batch': (2, 3, 2), '20 by 9': (20, 9)}
for name, shape in ANY_SIZE.items():
    variant = '/' + name if name else ''
    case('qr' + variant, linalg.qr, regular(*shape))
    case('svdvals' + variant, linalg.svdvals, regular(*shape))
    case('pinv' + variant, linalg.pinv, regular(*shape))
    case('svd' + variant, lambda x: singular_vectors(x, False), regular(*shape))
    case('svd/full ' + name, lambda x: singular_vectors(x, True), regular(*shape))
case('qr/complete', lambda x: linalg.qr(x, mode='complete'), regular(3, 5))
case('pinv/rank 1', linalg.pinv, given([[1., 2.], [2., 4.], [4., 8.]], True))
case('pinv/rtol', lambda x: linalg.pinv(x, rtol=0.7), regular(4, 3))
case('pinv/atol', lambda x: linalg.pinv(x, atol=4.5), regular(4, 3))
for order in ('nuc', 2, -2):
    case(f'matrix_norm/{order}', lambda x, order=order: linalg.matrix_norm(x, order), real(2, 3, 4))
case('matrix_norm/dimensions', lambda x: linalg.matrix_norm(x, 'nuc', (2, 0), True), real(3, 2, 4))
