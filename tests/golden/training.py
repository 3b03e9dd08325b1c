"""The optimizers and schedules that training.cpp compares: the parameters after STEPS steps, and
the learning rates and momenta of the first RATES steps, all in f64.

Parameter and gradients are not stored: both languages compute them with drawn() of layers.py, the
gradient of step t as drawn(t + 1).
"""
import torch
from torch import optim
from torch.optim import lr_scheduler

from layers import drawn

STEPS, SIZE, RATES = 20, 23, 60

OPTIMIZERS = {
    'SGD maximize': (optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True)),
    'Adam amsgrad': (optim.Adam, dict(lr=0.1, amsgrad=True, weight_decay=0.1)),
    'Adam maximize': (optim.Adam, dict(lr=0.1, maximize=True)),
    'AdamW amsgrad': (optim.AdamW, dict(lr=0.1, betas=(0.8, 0.7), amsgrad=True)),
    'AdamW maximize': (optim.AdamW, dict(lr=0.1, weight_decay=0.2, maximize=True)),
    'RMSprop': (optim.RMSprop, {}),
    'RMSprop alpha': (optim.RMSprop, dict(lr=0.1, alpha=0.7, eps=1e-3, weight_decay=0.2)),
    'RMSprop momentum': (optim.RMSprop, dict(momentum=0.8)),
    'RMSprop centered': (optim.RMSprop, dict(centered=True)),
    'RMSprop all': (optim.RMSprop,
                    dict(momentum=0.5, centered=True, weight_decay=0.1, maximize=True)),
    'Adagrad': (optim.Adagrad, {}),
    'Adagrad all': (optim.Adagrad,
                    dict(lr=0.3, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5,
                         eps=1e-4, maximize=True)),
    'Adadelta': (optim.Adadelta, {}),
    'Adadelta all': (optim.Adadelta,
                     dict(lr=0.7, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=True)),
    'Adamax': (optim.Adamax, {}),
    'Adamax all': (optim.Adamax,
                   dict(lr=0.1, betas=(0.8, 0.7), eps=1e-3, weight_decay=0.1, maximize=True)),
    'NAdam': (optim.NAdam, {}),
    'NAdam decay': (optim.NAdam, dict(lr=0.1, betas=(0.8, 0.7), eps=1e-3, weight_decay=0.1,
                                      momentum_decay=0.1)),
    'NAdam decoupled': (optim.NAdam, dict(weight_decay=0.2, decoupled_weight_decay=True,
                                          maximize=True)),
    'RAdam': (optim.RAdam, {}),
    'RAdam never rectified': (optim.RAdam, dict(lr=0.1, betas=(0.9, 0.6))),
    'RAdam decay': (optim.RAdam, dict(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    'RAdam decoupled': (optim.RAdam, dict(weight_decay=0.2, decoupled_weight_decay=True,
                                          maximize=True)),
}

# Options, and the shape of the parameter. Muon iterates in bf16.
MUONS = {
    'Muon': ({}, [4, 6]),
    'Muon tall': (dict(lr=0.1, weight_decay=0.3), [7, 3]),
    'Muon heavy ball': (dict(lr=0.1, momentum=0.6, nesterov=False), [5, 5]),
    'Muon rms': (dict(lr=0.1, ns_steps=3, ns_coefficients=(3.0, -3.2, 1.2), eps=1e-3,
                      adjust_lr_fn='match_rms_adamw'), [4, 6]),
}

# Options, and the shape of the parameter.
ADAFACTORS = {
    'Adafactor': ({}, [4, 6]),
    'Adafactor vector': ({}, [SIZE]),
    'Adafactor all': (dict(lr=0.3, beta2_decay=-0.5, eps=(0.2, 0.7), d=1.3, weight_decay=0.1,
                           maximize=True), [2, 3, 5]),
    'Adafactor all vector': (dict(lr=0.3, beta2_decay=-0.5, eps=(0.9, 0.7), d=1.3,
                                  weight_decay=0.1, maximize=True), [SIZE]),
}

# L-BFGS minimises, or maximises, residual_loss().
LBFGSES = {
    'LBFGS': dict(max_iter=3),
    'LBFGS all': dict(lr=0.7, max_iter=6, max_eval=4, tolerance_grad=1e-3, tolerance_change=1e-4,
                      history_size=3),
    'LBFGS defaults': {},
    'LBFGS wolfe': dict(line_search_fn='strong_wolfe', max_iter=2),
    'LBFGS wolfe all': dict(lr=20, line_search_fn='strong_wolfe', max_iter=6, max_eval=4,
                            history_size=2, maximize=True),
}

S = lr_scheduler
SCHEDULES = {
    'MultiStepLR': lambda o: S.MultiStepLR(o, [3, 10, 10, 40], gamma=0.5),
    'ExponentialLR': lambda o: S.ExponentialLR(o, 0.9),
    'PolynomialLR': lambda o: S.PolynomialLR(o, total_iters=30, power=2.5),
    'PolynomialLR defaults': S.PolynomialLR,
    'CosineAnnealingWarmRestarts': lambda o: S.CosineAnnealingWarmRestarts(o, 7, eta_min=0.01),
    'CosineAnnealingWarmRestarts longer': lambda o: S.CosineAnnealingWarmRestarts(o, 5, T_mult=3),
    'OneCycleLR': lambda o: S.OneCycleLR(o, max_lr=2, total_steps=60),
    'OneCycleLR linear': lambda o: S.OneCycleLR(
        o, max_lr=2, total_steps=60, pct_start=0.4, anneal_strategy='linear', base_momentum=0.7,
        max_momentum=0.99, div_factor=10, final_div_factor=100),
    'OneCycleLR three_phase': lambda o: S.OneCycleLR(o, max_lr=2, total_steps=61,
                                                     three_phase=True),
    'CyclicLR': lambda o: S.CyclicLR(o, 0.1, 1, step_size_up=8),
    'CyclicLR triangular2': lambda o: S.CyclicLR(o, 0.1, 1, step_size_up=5, step_size_down=9,
                                                 mode='triangular2', base_momentum=0.7),
    'CyclicLR exp_range': lambda o: S.CyclicLR(o, 0.1, 1, step_size_up=6, mode='exp_range',
                                               gamma=0.97),
}

# metric of each step -> learning rates
PLATEAUS = {
    'ReduceLROnPlateau': dict(patience=2, factor=0.5),
    'ReduceLROnPlateau max': dict(mode='max', patience=1, threshold=0.05, cooldown=3),
    'ReduceLROnPlateau abs': dict(patience=0, threshold=0.3, threshold_mode='abs', min_lr=0.02),
    'ReduceLROnPlateau max abs': dict(mode='max', patience=1, threshold=0.2,
                                      threshold_mode='abs', eps=0.01),
}


def metrics():
    """A falling sequence with noise, one NaN and one infinity."""
    values = (2 / (1 + 0.1 * torch.arange(RATES).double()) + 0.2 * drawn(5, [RATES])).tolist()
    values[20], values[30] = float('nan'), float('inf')
    return values


def trained(make, options, shape=(SIZE,)):
    p = drawn(0, shape).requires_grad_()
    optimizer = make([p], **options)
    for t in range(STEPS):
        p.grad = drawn(t + 1, shape)
        optimizer.step()
    return p.detach()


def residual_loss(parts):
    """A smooth convex loss of two tensors."""
    rest = drawn(2, [40, SIZE]) @ torch.cat([p.reshape(-1) for p in parts]) - drawn(3, [40])
    return (rest * rest + 0.5 * rest.sin()).mean()


def minimised(options):
    """The losses before each step, and the parameters at the end."""
    parts = [drawn(0, [3, 5]).requires_grad_(), drawn(1, [SIZE - 15]).requires_grad_()]
    optimizer, losses = optim.LBFGS(parts, **options), []
    sign = -1 if options.get('maximize') else 1

    def closure():
        optimizer.zero_grad()
        loss = sign * residual_loss(parts)
        loss.backward()
        return loss

    for _ in range(STEPS):
        losses.append(optimizer.step(closure).detach())
    return torch.cat([torch.stack(losses), *(p.detach().reshape(-1) for p in parts)])


def rates(make):
    optimizer = optim.SGD([drawn(0, [1]).requires_grad_()], lr=1.0, momentum=0.9)
    schedule, out = make(optimizer), []
    for t in range(RATES):
        group = optimizer.param_groups[0]
        out.append([group['lr'], group['momentum']])
        optimizer.step()
        if t + 1 < RATES:
            schedule.step()
    return torch.tensor(out, dtype=torch.float64)


def plateau(options):
    optimizer = optim.SGD([drawn(0, [1]).requires_grad_()], lr=1.0)
    schedule, out = lr_scheduler.ReduceLROnPlateau(optimizer, **options), []
    for value in metrics():
        schedule.step(value)
        out.append(optimizer.param_groups[0]['lr'])
    return torch.tensor(out, dtype=torch.float64)


def tensors_of_training():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # of the states that are numbers
    tensors = {name: trained(*row) for name, row in OPTIMIZERS.items()}
    tensors |= {name: trained(optim.Muon, *row) for name, row in MUONS.items()}
    tensors |= {name: trained(optim.Adafactor, *row) for name, row in ADAFACTORS.items()}
    tensors |= {name: minimised(options) for name, options in LBFGSES.items()}
    tensors |= {name: rates(make) for name, make in SCHEDULES.items()}
    tensors |= {name: plateau(options) for name, options in PLATEAUS.items()}
    torch.set_default_dtype(before)
    return tensors
