"""Loss functions."""
import torch
import torch.nn.functional as F

from golden import case, constant, given, mask, positive, real, whole

REDUCTIONS = ('none', 'sum', 'mean')


def reductions(name, call, *specs):
    for reduction in REDUCTIONS:
        case(f'{name}/{reduction}',
             lambda *x, reduction=reduction: call(*x, reduction=reduction),
             *specs)


for name in ('mse_loss', 'l1_loss', 'smooth_l1_loss', 'huber_loss'):
    reductions(name, getattr(F, name), real(3, 4), real(3, 4))
case('smooth_l1_loss/beta', lambda x, t: F.smooth_l1_loss(x, t, beta=0.3), real(3, 4), real(3, 4))
case('huber_loss/delta', lambda x, t: F.huber_loss(x, t, delta=0.3), real(3, 4), real(3, 4))
CLASSES, SPACE = whole(4, high=2), whole(2, 5, high=2)
reductions('cross_entropy', F.cross_entropy, real(4, 3), CLASSES)
reductions(
    'cross_entropy/weighted', lambda x, t, w, reduction: F.cross_entropy(
        x, t, w, ignore_index=1, label_smoothing=0.2, reduction=reduction), real(2, 3, 5), SPACE,
    constant(3, low=.2, high=2))
reductions(
    'cross_entropy/probabilities',
    lambda x, t, w, reduction: F.cross_entropy(x, t, w, label_smoothing=0.1, reduction=reduction),
    real(4, 3), constant(4, 3, low=0, high=1), constant(3, low=.2, high=2))
case('cross_entropy/one sample', F.cross_entropy, real(3), given(2))
reductions('nll_loss', F.nll_loss, real(4, 3), CLASSES)
reductions('nll_loss/weighted',
           lambda x, t, w, reduction: F.nll_loss(x, t, w, ignore_index=0, reduction=reduction),
           real(2, 3, 5), SPACE, constant(3, low=.2, high=2))
reductions('binary_cross_entropy', F.binary_cross_entropy, real(3, 4, low=.05, high=.95),
           constant(3, 4, low=0, high=1))
case('binary_cross_entropy/weight', lambda x, t, w: F.binary_cross_entropy(x, t, w),
     real(3, 4, low=.05, high=.95), constant(3, 4, low=0, high=1), constant(4, low=.2, high=2))
case('binary_cross_entropy/ends', F.binary_cross_entropy, given([0., 1., 0., 1.]),
     given([0., 1., 1., 0.]))
reductions('binary_cross_entropy_with_logits', F.binary_cross_entropy_with_logits, real(3, 4),
           constant(3, 4, low=0, high=1))
case('binary_cross_entropy_with_logits/weights',
     lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p), real(3, 4),
     constant(3, 4, low=0, high=1), constant(4, low=.2, high=2), constant(4, low=.2, high=2))
reductions('kl_div', F.kl_div, real(3, 4, low=-4, high=-.1), real(3, 4, low=.05, high=.95))
case('kl_div/log target', lambda x, t: F.kl_div(x, t, log_target=True, reduction='batchmean'),
     real(3, 4, low=-4, high=-.1), real(3, 4, low=-4, high=-.1))
SIGNS = given([[1., -1., 1., 1.], [-1., -1., 1., -1.], [1., 1., -1., -1.]])
reductions('hinge_embedding_loss', F.hinge_embedding_loss, real(3, 4), SIGNS)
case('hinge_embedding_loss/margin', lambda x, t: F.hinge_embedding_loss(x, t, margin=0.4),
     real(3, 4), SIGNS)
reductions('soft_margin_loss', F.soft_margin_loss, real(3, 4), SIGNS)
reductions(
    'margin_ranking_loss',
    lambda a, b, t, reduction: F.margin_ranking_loss(a, b, t, margin=0.3, reduction=reduction),
    real(3, 4), real(3, 4), SIGNS)
reductions(
    'cosine_embedding_loss',
    lambda a, b, t, reduction: F.cosine_embedding_loss(a, b, t, margin=0.1, reduction=reduction),
    real(4, 3), real(4, 3), given([1, -1, -1, 1]))
reductions('poisson_nll_loss', F.poisson_nll_loss, real(3, 4), constant(3, 4, low=0, high=4))
case('poisson_nll_loss/full, rates',
     lambda x, t: F.poisson_nll_loss(x, t, log_input=False, full=True, eps=1e-3), positive(3, 4),
     constant(3, 4, low=0, high=4))
reductions('multi_margin_loss', F.multi_margin_loss, real(4, 3), CLASSES)
case('multi_margin_loss/options', lambda x, t, w: F.multi_margin_loss(x, t, 2, 0.5, w), real(4, 3),
     CLASSES, constant(3, low=.2, high=2))
LABELS = given([[2, 0, -1, 1], [-1, 0, 1, 2], [3, 1, 0, -1]])
reductions('multilabel_margin_loss', F.multilabel_margin_loss, real(3, 4), LABELS)
reductions('multilabel_soft_margin_loss', F.multilabel_soft_margin_loss, real(3, 4),
           constant(3, 4, low=0, high=1))
case('multilabel_soft_margin_loss/weight', lambda x, t, w: F.multilabel_soft_margin_loss(x, t, w),
     real(3, 4), constant(3, 4, low=0, high=1), constant(4, low=.2, high=2))
reductions('triplet_margin_loss', F.triplet_margin_loss, real(4, 3), real(4, 3), real(4, 3))
case('triplet_margin_loss/options',
     lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=0.5, p=1, swap=True), real(4, 3),
     real(4, 3), real(4, 3))
