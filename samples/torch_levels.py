"""Mezzo's levels of mixed precision, and its optimizers, in PyTorch 1.13 and later.

Used by torch_training.py and compare_torch_ops.py.
"""
import contextlib
import typing
import warnings

import torch


class Level(typing.NamedTuple):
    """What a level does in PyTorch."""
    low: torch.dtype = None  # the 16-bit dtype
    casts: bool = False  # ops run under autocast
    converts: bool = False  # the model is converted to the 16-bit dtype
    masters: bool = False  # batch norms stay f32, 16-bit parameters have f32 masters
    scales: bool = False  # the loss is scaled


LEVELS = {
    "O0": Level(),
    "O1": Level(torch.float16, casts=True, scales=True),
    "O2": Level(torch.float16, converts=True, masters=True, scales=True),
    "O3": Level(torch.float16, converts=True),
    "O4": Level(torch.bfloat16, casts=True),
    "O5": Level(torch.bfloat16, converts=True, masters=True),
}


# ---- optimizers ----------------------------------------------------------------------------------


def steps_with(kind, parameters, options):
    """Returns whether an optimizer with these options can step on parameters of these dtypes."""
    trial = [torch.zeros(1, dtype=dtype, device=device, requires_grad=True)
             for dtype, device in sorted({(p.dtype, p.device) for p in parameters}, key=str)]
    for p in trial:
        p.grad = torch.zeros_like(p)
    try:
        kind(trial, **options).step()
    except (TypeError, RuntimeError):  # an unknown option, or one that the device does not have
        return False
    return True


def make_optimizer(kind, parameters, **options):
    """Returns (optimizer, "fused", "foreach" or "plain"): the first form that PyTorch has here."""
    for form in ("fused", "foreach"):
        if steps_with(kind, parameters, {**options, form: True}):
            return kind(parameters, **options, **{form: True}), form
    return kind(parameters, **options), "plain"


def optimizer_of(facts):
    """Returns a function of the parameters that makes the optimizer of an exported file."""
    options = {"lr": float(facts["lr"]), "weight_decay": float(facts.get("weight_decay", 0))}
    if facts["optimizer"] == "sgd":
        kind = torch.optim.SGD
        options["momentum"] = float(facts["momentum"])
    else:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[facts["optimizer"]]
        options["betas"] = tuple(float(b) for b in facts.get("betas", "0.9,0.999").split(","))
    return lambda parameters: make_optimizer(kind, parameters, **options)


# ---- levels --------------------------------------------------------------------------------------


def copy_all(targets, sources):
    """Copies tensors into others, in one call if this PyTorch has one."""
    if hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(targets, sources)
    else:
        for target, source in zip(targets, sources):
            target.copy_(source)


def make_scaler(device, enabled):
    """Returns a GradScaler. Errors: RuntimeError where PyTorch has none for the device."""
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, enabled=enabled)
    if enabled and device.type != "cuda":
        raise RuntimeError(f"PyTorch {torch.__version__} scales losses on CUDA only")
    return torch.cuda.amp.GradScaler(enabled=enabled)


def compile_problem():
    """Returns why there is no torch.compile, or None."""
    if hasattr(torch, "compile"):
        return None
    return f"PyTorch {torch.__version__} has no torch.compile"


def compiled(net):
    """Returns a compiled net. Of a net with a state, compiles `read`, a function of tensors."""
    config = torch._dynamo.config
    for limit in ("recompile_limit", "cache_size_limit"):  # the same code serves all levels
        if hasattr(config, limit):
            setattr(config, limit, 64)
    if hasattr(net, "read"):
        net.read = torch.compile(net.read)
        return net
    return torch.compile(net)


class Levelled:
    """A net and its optimizer at a level, with casts, masters and loss scale as in Mezzo.

    Errors: RuntimeError where PyTorch cannot train at the level on the device.
    """

    def __init__(self, net, make, level, device, compiles=False):
        self.net, self.level, self.device = net.to(device), LEVELS[level], torch.device(device)
        self.check_casts()
        originals = [p.detach().clone() for p in net.parameters()] if self.level.masters else []
        if self.level.converts:
            self.convert()
        parameters = list(net.parameters())
        # Pairs of a 16-bit parameter and its master.
        self.masters = [(p, original.requires_grad_()) for p, original in zip(parameters, originals)
                        if p.dtype == self.level.low]
        master_of = {id(p): master for p, master in self.masters}
        self.stepped = [master_of.get(id(p), p) for p in parameters]
        for _, master in self.masters:
            master.grad = torch.zeros_like(master)
        self.optimizer, self.form = make(self.stepped)
        self.scaler = make_scaler(self.device, self.level.scales)
        self.call = compiled(net) if compiles else net

    def convert(self):
        norms = [module for module in self.net.modules()
                 if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
        kept = [{name: value.clone() for name, value in norm.state_dict().items()}
                for norm in norms]
        self.net.to(self.level.low)
        if self.level.masters:
            for norm, values in zip(norms, kept):
                norm.float().load_state_dict(values)  # not the rounded values

    def check_casts(self):
        """PyTorch only warns of a dtype to which it cannot cast, and goes on in f32."""
        if self.level.casts:
            x = torch.ones(2, 2, device=self.device)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self.casts():
                    low = (x @ x).dtype
            if low != self.level.low:
                raise RuntimeError(f"autocast to {self.level.low} has no effect")

    def casts(self):
        if self.level.casts:
            return torch.autocast(self.device.type, dtype=self.level.low)
        return contextlib.nullcontext()

    def __call__(self, x):
        if self.level.converts and x.is_floating_point():
            x = x.to(self.level.low)
        with self.casts():
            y = self.call(x)
        return y.float()

    def zero_grad(self):
        for p in self.net.parameters():
            p.grad = None

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, max_norm=0):
        with torch.no_grad():
            if self.masters:
                copy_all([master.grad for _, master in self.masters],
                         [p.grad for p, _ in self.masters])
            if max_norm:
                self.scaler.unscale_(self.optimizer)
                torch.nn.utils.clip_grad_norm_(self.stepped, max_norm)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.masters:
                copy_all([p for p, _ in self.masters], [master for _, master in self.masters])
