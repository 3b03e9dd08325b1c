"""The metrics that metrics.cpp compares, by torchmetrics. Inputs are stored as "NAME:preds0",
"NAME:target0", ... of each batch, and the result as "NAME:y".

Scores are multiples of 1/8, exact in f16 and bf16, so that many are equal.
"""
import warnings

import torch
import torchmetrics as M

C = 4
L = 3


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def scores(g, shape, spread=24):
    return torch.randint(-spread, spread, shape, generator=g) / 8


def classes(g, shape, ignored=None, count=C):
    target = torch.randint(0, count, shape, generator=g)
    if ignored is not None:
        target[torch.rand(shape, generator=g) < 0.2] = ignored
    return target


def distinct(g, n):
    """Rows without equal scores: torch chooses any of the largest."""
    if n == 0:
        return torch.zeros(0, C)
    return torch.stack([torch.randperm(9, generator=g)[:C] for _ in range(n)]) / 4 - 1


def multiclass(seed, ignored=None, sizes=(13, 0, 9)):
    g = drawn(seed)
    return [(distinct(g, n), classes(g, (n,), ignored)) for n in sizes]


def shares(seed, ignored=None):
    """Scores in 0..1, many of them equal."""
    g = drawn(seed)
    return [(torch.randint(0, 33, (n, C), generator=g) / 32, classes(g, (n,), ignored))
            for n in (13, 9)]


def logits(seed):
    """Scores whose softmax has no equal results; exact in f16, not in bf16."""
    g = drawn(seed)
    return [(torch.randn((n, C), generator=g).half().float() * 2, classes(g, (n,)))
            for n in (13, 9)]


def rare(seed):
    """Class 2 is never a target, class 3 neither target nor prediction."""
    out = []
    for preds, target in multiclass(seed):
        preds[:, 3] = -9
        out.append((preds, target % 2))
    return out


def images(seed):
    g = drawn(seed)
    return [(torch.stack([distinct(g, 6).T.reshape(C, 2, 3) for _ in range(n)]),
             classes(g, (n, 2, 3), -1)) for n in (3, 2)]


def binary(seed, ignored=None, logits=True):
    g = drawn(seed)
    out = []
    for n in (15, 8):
        x = scores(g, (n,))
        out.append((x if logits else (x / 8 + 0.5), classes(g, (n,), ignored, 2)))
    return out


def labels(seed, ignored=None, logits=True, shape=()):
    """Targets 0 and 1 of L labels; the last label is rare."""
    g = drawn(seed)
    out = []
    for n in (13, 0, 8):
        x = scores(g, (n, L, *shape))
        target = classes(g, (n, L, *shape), ignored, 2)
        target[:, 2] = torch.where(target[:, 2] == 1, classes(g, (n, *shape), None, 2),
                                   target[:, 2])
        out.append((x if logits else (x / 8 + 0.5), target))
    return out


def words(seed, ignored=None):
    g = drawn(seed)
    return [(scores(g, (n, 5, 7)), classes(g, (n, 5), ignored, 7)) for n in (2, 3)]


def numbers(seed, shape):
    g = drawn(seed)
    return [(scores(g, (n, *shape)), scores(g, (n, *shape))) for n in (9, 1, 6)]


def cases():
    out = {}
    for name in ('Accuracy', 'Precision', 'Recall', 'F1Score'):
        make = getattr(M, name)
        for average in ('micro', 'macro', 'weighted', 'none'):
            options = {'task': 'multiclass', 'num_classes': C, 'average': average}
            out[f'{name} {average}'] = make(**options), multiclass(1)
            out[f'{name} {average} ignored'] = make(ignore_index=-1, **options), multiclass(2, -1)
            out[f'{name} {average} ignored class'] = make(ignore_index=2, **options), multiclass(3)
            out[f'{name} {average} rare'] = make(**options), rare(4)
            out[f'{name} {average} top 2'] = make(top_k=2, **options), multiclass(5)
            out[f'{name} {average} top 2 rare'] = make(top_k=2, **options), rare(6)
            out[f'{name} {average} images'] = make(ignore_index=-1, **options), images(7)
        out[f'{name} binary'] = make(task='binary'), binary(8)
        out[f'{name} binary probabilities'] = make(
            task='binary', threshold=0.6), binary(9, None, False)
        out[f'{name} binary ignored'] = make(task='binary', ignore_index=-1), binary(10, -1)
        for average in ('micro', 'macro', 'weighted', 'none'):
            options = {'task': 'multilabel', 'num_labels': L, 'average': average}
            out[f'{name} labels {average}'] = make(**options), labels(30)
            out[f'{name} labels {average} ignored'] = make(
                ignore_index=-1, **options), labels(32, -1)
        options = {'task': 'multilabel', 'num_labels': L, 'average': 'none'}
        out[f'{name} labels none probabilities'] = make(
            threshold=0.6, **options), labels(31, None, False)
        out[f'{name} labels none pixels'] = make(**options), labels(33, None, True, (2, 3))
    for normalize in ('none', 'true', 'pred', 'all'):
        make = M.ConfusionMatrix
        out[f'ConfusionMatrix labels {normalize}'] = make(
            task='multilabel', num_labels=L, normalize=normalize), labels(34)
        out[f'ConfusionMatrix labels {normalize} ignored'] = make(
            task='multilabel', num_labels=L, normalize=normalize, ignore_index=-1), labels(35, -1)
        out[f'ConfusionMatrix {normalize}'] = make(
            task='multiclass', num_classes=C, normalize=normalize), rare(11)
        out[f'ConfusionMatrix {normalize} ignored'] = make(
            task='multiclass', num_classes=C, normalize=normalize,
            ignore_index=-1), multiclass(12, -1)
        out[f'ConfusionMatrix {normalize} binary'] = make(
            task='binary', normalize=normalize), binary(13)
    for average in ('macro', 'weighted', 'none'):
        options = {'task': 'multiclass', 'num_classes': C, 'average': average}
        out[f'AUROC {average}'] = M.AUROC(**options), shares(14)
        out[f'AUROC {average} ignored'] = M.AUROC(ignore_index=-1, **options), shares(15, -1)
        out[f'AUROC {average} logits'] = M.AUROC(**options), logits(25)
        out[f'AUROC {average} rare'] = M.AUROC(**options), [(p, t % 2) for p, t in shares(16)]
    for average in ('micro', 'macro', 'weighted', 'none'):
        options = {'task': 'multilabel', 'num_labels': L, 'average': average}
        out[f'AUROC labels {average}'] = M.AUROC(**options), labels(36, None, False)
        out[f'AUROC labels {average} ignored'] = M.AUROC(
            ignore_index=-1, **options), labels(37, -1, False)
    out['AUROC binary'] = M.AUROC(task='binary'), binary(17)
    out['AUROC binary probabilities'] = M.AUROC(task='binary'), binary(18, None, False)
    out['AUROC binary ignored'] = M.AUROC(task='binary', ignore_index=-1), binary(19, -1)
    out['Perplexity'] = M.text.Perplexity(), words(20)
    out['Perplexity ignored'] = M.text.Perplexity(ignore_index=-1), words(21, -1)
    out['R2Score'] = M.R2Score(), numbers(22, ())
    out['R2Score adjusted'] = M.R2Score(adjusted=3), numbers(23, ())
    for how in ('uniform_average', 'raw_values', 'variance_weighted'):
        out[f'R2Score {how}'] = M.R2Score(multioutput=how), numbers(24, (3,))
    return out


def tensors_of_metrics():
    warnings.simplefilter('ignore')
    out = {}
    for name, (metric, batches) in cases().items():
        for k, (preds, target) in enumerate(batches):
            if preds.numel() > 0:
                metric.update(preds.double() if name.startswith('R2') else preds,
                              target.double() if name.startswith('R2') else target)
            out[f'{name}:preds{k}'] = preds.half()
            out[f'{name}:target{k}'] = target if target.dtype == torch.int64 else target.half()
        y = metric.compute()
        out[f'{name}:y'] = y if y.dtype == torch.int64 else y.double()
    return out
