#!/usr/bin/env python3
"""Trains the nets of Mezzo's bench in PyTorch and compares the times of both sides.

    samples/bench_torch.py --out peer.json [--nets mlp,char_gpt] [--levels O0,O4] [--size small]
                           [--batch 0] [--threads 1,2] [--blocks 5] [--steps 12] [--no-compile]
    build/samples/bench --peer peer.json

To compare training on several ranks (Mezzo over MPI, PyTorch over gloo), by CPU time per rank:

    samples/bench_torch.py --ranks 2 [--out ranks.json] [--nets resnet18,char_gpt,mlp]
                           [--levels O0] [--size ...] [--batch 0] [--blocks 5] [--steps 12]

To write PyTorch's losses only, for the loss curves in tests/samples:

    samples/bench_torch.py --losses FILE [--nets ...] [--levels ...] [--size tiny] [--steps 20]

All sides use the same initial weights, data, optimizer and level. Weights and data come from
`bench --export` as safetensors files. Levels are: autocast (O1 with a GradScaler, O4), a 16-bit
model whose batch norms and masters are f32 (O2 with a GradScaler, O5), and a 16-bit model (O3).
The optimizers are PyTorch's fused ones, or else its foreach ones. Blocks of steps in Mezzo, in
PyTorch and in PyTorch with torch.compile alternate; the times are medians of blocks. What PyTorch
cannot run on the device is one line, and the rest goes on.
Needs a python3 with torch 1.13 or later (Debian: apt-get install python3-torch).
"""
import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile

import torch_peer
import torch_rows

NETS = "mlp,lenet,resnet18,char_lstm,char_gpt,dcgan,wgan_gp"
LEVELS = ("O0", "O1", "O2", "O3", "O4", "O5")
WARM_UP = 5  # steps; char_lstm's state is reset after four


def parse_arguments():
    parser = torch_peer.parser(__doc__, threads=None)
    parser.add_argument("--nets", default=NETS)
    parser.add_argument("--levels", help="default: O0,O4; with --ranks O0")
    parser.add_argument("--size", default=None,
                        help="tiny, small or full; default: the sizes that have targets")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12, help="steps in a block")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True,
                        help="also measure torch.compile")
    parser.add_argument("--out", help="file for the times of all sides, for bench --peer")
    parser.add_argument("--losses", help="file for PyTorch's losses; measures no times")
    parser.add_argument("--ranks", type=int, default=0,
                        help="compare training in this many processes, which it starts")
    args = parser.parse_args()
    if not args.out and not args.losses and not args.ranks:
        parser.error("--out FILE, --losses FILE or --ranks N is required")
    args.nets = args.nets.split(",")
    args.levels = (args.levels or ("O0" if args.ranks else "O0,O4")).split(",")
    for level in args.levels:
        if level not in LEVELS:
            parser.error(f"--levels: unknown level {level}; there are {', '.join(LEVELS)}")
    if args.ranks and {"dcgan", "wgan_gp"} & set(args.nets) and args.size:
        parser.error("--ranks: dcgan and wgan_gp have two models; choose other --nets")
    cores = len(os.sched_getaffinity(0))
    default = max(1, cores // args.ranks) if args.ranks else cores
    args.threads = [int(count) for count in str(args.threads or default).split(",")]
    return args


def say(line):
    print(line, file=sys.stderr, flush=True)


def write_report(path, report):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)


def export(args, folder, nets, size, batch):
    torch_peer.run_bench(args.bench, "--export", folder, "--nets", ",".join(nets), "--size", size,
                         "--batch", batch)


# ---- losses --------------------------------------------------------------------------------------


def write_losses(args):
    """Writes lines of NET LEVEL LOSS..., of the levels that PyTorch can run."""
    from torch_training import make_training  # after the threads of torch are set
    with tempfile.TemporaryDirectory() as folder, open(args.losses, "w", encoding="utf-8") as out:
        export(args, folder, args.nets, args.size or "tiny", args.batch)
        for net in args.nets:
            for level in args.levels:
                try:
                    training = make_training(folder, net, level, args.device)
                    losses = [training.step() for _ in range(args.steps)]
                except Exception as error:  # the other levels go on
                    say(f"{net} {level}: PyTorch cannot: {torch_rows.one_line(error)}")
                    continue
                print(net, level, *(f"{loss:.9g}" for loss in losses), file=out)


# ---- times ---------------------------------------------------------------------------------------


def cases(args):
    """Returns (net, size, batch) of every comparison."""
    if args.size:
        return [(net, args.size, args.batch) for net in args.nets]
    return [case for case in torch_rows.TARGETS if case[0] in args.nets]


class Case:
    """A net whose levels and sides are measured in turns."""

    def __init__(self, args, net, size, batch, compiles):
        self.args, self.net, self.size, self.batch, self.compiles = args, net, size, batch, compiles
        self.sides, self.errors = {}, {}  # by (level, side)
        self.forms = {}  # level -> form of PyTorch's optimizer
        self.samples = batch  # of a step, once Mezzo has run
        with tempfile.TemporaryDirectory() as folder:
            export(args, folder, [net], size, batch)
            for level in args.levels:
                self.sides[level, "mezzo"] = functools.partial(self.mezzo_block, level)
                if self.add_torch(folder, level, "torch") and compiles:
                    self.add_torch(folder, level, "compiled")

    def mezzo_block(self, level):
        args = self.args
        report = torch_peer.bench_report(
            args.bench, "--nets", self.net, "--levels", level, "--size", self.size, "--batch",
            self.batch, "--device", args.device, "--steps", args.steps + 3, "--warm-up", 3,
            "--threads", args.threads[0], "--quiet")
        run, = report["runs"]
        self.samples = run["samples"]
        return run["step_ms"] / 1e3

    def add_torch(self, folder, level, side):
        """Adds a side after its warm-up. Returns whether PyTorch can run it."""
        from torch_training import make_training  # after the threads of torch are set
        try:
            training = make_training(folder, self.net, level, self.args.device, side == "compiled")
            for _ in range(WARM_UP):
                training.step()
        except Exception as error:  # the other sides go on
            self.errors[level, side] = torch_rows.one_line(error)
            return False
        self.forms[level] = training.form
        self.sides[level, side] = functools.partial(torch_peer.median_seconds, training.step,
                                                    self.args.steps)
        return True

    def rows(self):
        times, errors = torch_rows.in_turns(self.sides, self.args.blocks)
        errors.update(self.errors)
        wanted = {}
        if self.args.device == "cpu":
            wanted = torch_rows.TARGETS.get((self.net, self.size, self.samples), {})
        for level in self.args.levels:
            facts = {"net": f"{self.net} {self.size}", "level": level,
                     "threads": self.args.threads[0], "batch": self.samples}
            if level in self.forms:
                facts["optimizer"] = self.forms[level]
            yield torch_rows.row(facts, of_level(times, level), of_level(errors, level),
                                 times.get(("O0", "mezzo")),
                                 wanted.get(level, torch_rows.Target()))


def of_level(values, level):
    """Returns {side: value} of {(level, side): value}."""
    return {side: value for (its_level, side), value in values.items() if its_level == level}


def write_comparison(args, torch):
    """Measures with one number of threads. Returns whether Mezzo ran everything."""
    from torch_levels import compile_problem  # after the threads of torch are set
    problem = compile_problem() if args.compile else None
    if problem:
        say(problem)
    runs = []
    for net, size, batch in cases(args):
        for run in Case(args, net, size, batch, args.compile and not problem).rows():
            for line in torch_rows.in_words(run):
                say(line)
            runs.append(run)
    write_report(args.out, {"torch": torch.__version__, "device": args.device,
                            "blocks": args.blocks, "steps": args.steps, "runs": runs})
    return not any("mezzo_error" in run for run in runs)


def compare_ranks(args, torch):
    """Measures training on several ranks. Returns whether Mezzo ran everything."""
    import torch_ranks
    runs = []
    for run in torch_ranks.rows(args):
        print(*torch_ranks.in_words(run), sep="\n", flush=True)
        runs.append(run)
    if args.out:
        write_report(args.out, {"torch": torch.__version__, "blocks": args.blocks,
                                "steps": args.steps, "ranks": runs})
    return not any("mezzo_error" in run for run in runs)


def compare_threads(args):
    """Runs a process for each number of threads. Returns its largest status.

    set_num_threads() has no effect on a matrix library that has started its threads.
    """
    reports, statuses = [], []
    for threads in args.threads:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "peer.json")
            # The last value of an option is used.
            command = [sys.executable, *sys.argv, "--threads", str(threads), "--out", path]
            statuses.append(subprocess.run(command, check=False).returncode)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    reports.append(json.load(file))
    if reports:
        write_report(args.out, torch_rows.merged(reports))
    return max(abs(status) for status in statuses)


def main():
    args = parse_arguments()
    if args.ranks:
        return 0 if compare_ranks(args, torch_peer.load_torch(args.threads[0])) else 1
    if args.out and len(args.threads) > 1:
        return compare_threads(args)
    torch = torch_peer.load_torch(max(args.threads))
    if args.losses:
        write_losses(args)
    return 0 if not args.out or write_comparison(args, torch) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, subprocess.CalledProcessError) as problem:  # no bench, or it failed
        sys.exit(f"bench_torch: {torch_rows.one_line(problem)}")
