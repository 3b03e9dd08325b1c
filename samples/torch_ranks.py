"""Training on several ranks: Mezzo over MPI and PyTorch over gloo, both with
DistributedDataParallel, measured in turns.

Used by bench_torch.py --ranks. Efficiencies are those of `bench --ranks`: the time of one rank for
the work of all ranks, over the sum of the ranks' times.
"""
import functools
import json
import os
import statistics
import subprocess
import tempfile
import time
import typing

import torch_peer
import torch_rows

WARM_UP = 5  # steps
TURN = 5  # steps; the median of a turn is one value
FIGURES = ("step_ms", "cpu_ms", "joint_ms", "joint_cpu_ms", "single_ms", "single_cpu_ms",
           "split_ms", "split_cpu_ms", "weak_cpu", "weak", "strong_cpu", "strong")


class Case(typing.NamedTuple):
    """A net, and the least efficiency by CPU time that it should reach on two ranks."""
    net: str
    size: str
    batch: int = 0  # of a step of each rank; 0: the default of the size
    width: int = 0  # 0: the default of the size
    wanted: float = None


CASES = (
    Case("resnet18", "small", 8, 32, 0.88),
    Case("char_gpt", "small", 8, 192, 0.92),
    Case("mlp", "small", 64, 1024, 0.60),
)


def cases(args):
    if args.size:
        return [Case(net, args.size, args.batch) for net in args.nets]
    return [case for case in CASES if case.net in args.nets]


# ---- figures -------------------------------------------------------------------------------------


def efficiency(alone, together, ranks):
    """Returns the median of the turns' ratios."""
    return statistics.median(a / (ranks * b) for a, b in zip(alone, together))


def figures(times, ranks):
    """Returns the figures of {training: {"ms": values of the turns, "cpu_ms": ...}}."""
    names = {"full": "", "joint": "joint_", "single": "single_", "split": "split_"}
    result = {}
    for training, values in times.items():
        result[(names[training] or "step_") + "ms"] = statistics.median(values["ms"])
        result[names[training] + "cpu_ms"] = statistics.median(values["cpu_ms"])
    for name, alone, together in (("weak", "joint", "full"), ("strong", "single", "split")):
        if together in times:
            for suffix, key in (("", "ms"), ("_cpu", "cpu_ms")):
                result[name + suffix] = efficiency(times[alone][key], times[together][key], ranks)
    return result


def row(facts, blocks, errors, wanted):
    """Returns a row: facts, and for each side the medians of its blocks' figures, or its error."""
    run = dict(facts)
    for side, values in blocks.items():
        run[side] = {name: statistics.median(block[name] for block in values)
                     for name in FIGURES if all(name in block for block in values)}
        shares = [block["weak_cpu"] for block in values]
        run[side].update(weak_cpu_lowest=min(shares), weak_cpu_highest=max(shares))
    for side, error in errors.items():
        run[f"{side}_error"] = error
    if wanted and "mezzo" in run:
        reached = run["mezzo"]["weak_cpu"]
        run.update(wanted=wanted,
                   met=reached >= wanted and reached > run.get("torch", {}).get("weak_cpu", 0))
    return run


def in_words(run):
    """Returns a row as lines: a line for each side."""
    name = f"{run['net']} {run['level']}, {run['ranks']} ranks x {run['threads']}"
    lines = []
    for side in ("mezzo", "torch"):
        if f"{side}_error" in run:
            lines.append(f"{name}: {side} failed: {run[side + '_error']}")
        if side not in run:
            continue
        f = run[side]
        text = (f"{name}: {side} {f['cpu_ms']:.1f} ms of CPU a step and rank, efficiency "
                f"{f['weak_cpu']:.2f} ({f['weak_cpu_lowest']:.2f}-{f['weak_cpu_highest']:.2f})")
        if "strong_cpu" in f:
            text += f", strong {f['strong_cpu']:.2f}"
        if side == "mezzo" and "wanted" in run:
            text += (f" (wanted >= {run['wanted']:g} and above PyTorch: "
                     f"{'met' if run['met'] else 'missed'})")
        lines.append(text)
    return lines


# ---- PyTorch -------------------------------------------------------------------------------------


class Timed:
    """A training and the times of its steps."""

    def __init__(self, training):
        self.training, self.wall, self.cpu = training, [], []
        self.turns = {"ms": [], "cpu_ms": []}

    def step(self):
        wall, cpu = time.perf_counter(), time.process_time()
        self.training.step()
        self.cpu.append(1e3 * (time.process_time() - cpu))
        self.wall.append(1e3 * (time.perf_counter() - wall))

    def end_turn(self, counts):
        if counts:
            self.turns["ms"].append(statistics.median(self.wall))
            self.turns["cpu_ms"].append(statistics.median(self.cpu))
        self.wall, self.cpu = [], []


def wrapped(training, torch):
    """Reduces the gradients of a training over all ranks, in buckets that are views."""
    training.net.call = torch.nn.parallel.DistributedDataParallel(
        training.net.net, gradient_as_bucket_view=True)
    return training


def over_ranks(turns, dist, ranks):
    """Returns the slowest rank's time of each turn and the mean CPU time."""
    gathered = [None] * ranks
    dist.all_gather_object(gathered, turns)
    return {"ms": [max(values) for values in zip(*(one["ms"] for one in gathered))],
            "cpu_ms": [statistics.mean(values) for values in zip(*(one["cpu_ms"]
                                                                   for one in gathered))]}


def work(rank, job):
    """Trains on one rank. Rank 0 writes the times of all turns."""
    torch = torch_peer.load_torch(job["threads"])
    from torch_training import make_training
    dist, ranks = torch.distributed, job["ranks"]
    dist.init_process_group("gloo", init_method=f"file://{job['folder']}/meet", rank=rank,
                            world_size=ranks)

    def training(batch):
        return make_training(os.path.join(job["folder"], batch), job["net"], job["level"], "cpu")

    together = {name: Timed(wrapped(training(name), torch)) for name in ("full", "split")
                if name in job["batches"]}
    alone = {name: Timed(training(name if name == "joint" else "full"))
             for name in ("joint", "single") if rank == 0}

    def train(steps, counts):
        for one, all_ranks in (("joint", "full"), ("single", "split")):
            for _ in range(steps):  # the other ranks sleep in the barrier
                if rank == 0:
                    alone[one].step()
                dist.barrier()
            if all_ranks in together:
                for _ in range(steps):
                    together[all_ranks].step()
        for timed in (*together.values(), *alone.values()):
            timed.end_turn(counts)

    train(WARM_UP, False)
    for _ in range(job["turns"]):
        train(TURN, True)
    times = {name: over_ranks(timed.turns, dist, ranks) for name, timed in together.items()}
    times.update({name: timed.turns for name, timed in alone.items()})
    if rank == 0:
        with open(os.path.join(job["folder"], "times.json"), "w", encoding="utf-8") as file:
            json.dump(times, file)
    dist.barrier()
    dist.destroy_process_group()


def torch_block(job):
    import torch.multiprocessing
    for name in ("meet", "times.json"):
        path = os.path.join(job["folder"], name)
        if os.path.exists(path):
            os.remove(path)
    torch.multiprocessing.spawn(work, (job,), nprocs=job["ranks"])
    with open(os.path.join(job["folder"], "times.json"), encoding="utf-8") as file:
        return figures(json.load(file), job["ranks"])


# ---- both sides ----------------------------------------------------------------------------------


def export(args, case, folder):
    """Writes the net with the batches of all trainings. Returns {training: batch}."""

    def write(name, batch):
        target = os.path.join(folder, name)
        torch_peer.run_bench(args.bench, "--export", target, "--nets", case.net, "--size",
                             case.size, "--batch", batch, "--width", case.width)
        return target

    from torch_training import read_safetensors
    target = write("full", case.batch)
    tensors, _ = read_safetensors(os.path.join(target, case.net + ".safetensors"))
    batches = {"full": tensors["x.0"].shape[1 if case.net == "char_lstm" else 0]}
    batches["joint"] = batches["full"] * args.ranks
    if batches["full"] % args.ranks == 0:
        batches["split"] = batches["full"] // args.ranks
    for name in ("joint", "split"):
        if name in batches:
            write(name, batches[name])
    return batches


def mezzo_block(args, case, level, turns):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ranks.json")
        command = [*torch_peer.mpirun(args.ranks), args.bench, "--ranks", "--nets", case.net,
                   "--levels", level, "--size", case.size, "--batch", case.batch, "--width",
                   case.width, "--warm-up", WARM_UP, "--steps", WARM_UP + turns * TURN,
                   "--seconds", 0, "--threads", args.threads[0], "--quiet", "--json", path]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL,
                       env=torch_peer.mpi_environment())
        with open(path, encoding="utf-8") as file:
            return json.load(file)["runs"][0]


def rows(args):
    """Yields a row for each net and level, whose sides are measured in turns."""
    turns = max(1, args.steps // TURN)
    for case in cases(args):
        with tempfile.TemporaryDirectory() as folder:
            batches = export(args, case, folder)
            for level in args.levels:
                job = {"ranks": args.ranks, "threads": args.threads[0], "folder": folder,
                       "net": case.net, "level": level, "batches": batches, "turns": turns}
                sides = {"mezzo": functools.partial(mezzo_block, args, case, level, turns),
                         "torch": functools.partial(torch_block, job)}
                blocks, errors = torch_rows.in_turns(sides, args.blocks)
                facts = {"net": f"{case.net} {case.size}", "level": level, "ranks": args.ranks,
                         "threads": args.threads[0], "batch": batches["full"]}
                yield row(facts, blocks, errors, case.wanted if args.ranks == 2 else None)
