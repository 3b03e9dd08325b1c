"""Rows of bench_torch.py's report: medians and ratios of alternating blocks, and their targets.

Needs no torch.
"""
import statistics
import typing

SIDES = ("mezzo", "torch", "compiled")


class Target(typing.NamedTuple):
    """Targets of a net at a level, on a CPU with bf16 instructions."""
    ratio: float = None  # least ratio of eager PyTorch's time to Mezzo's
    o0_ratio: float = None  # largest ratio of Mezzo's time to its own at O0


def targets(o0, o4, o4_of_o0, o5_of_o0):
    return {"O0": Target(o0), "O4": Target(o4, o4_of_o0), "O5": Target(None, o5_of_o0)}


# (net, size, batch) -> level -> target.
TARGETS = {
    ("mlp", "small", 128): targets(1.6, 1.05, 0.68, 0.65),
    ("lenet", "small", 128): targets(1.4, 1.1, 0.75, 0.75),
    ("resnet18", "full", 32): targets(1.2, 1.0, 0.62, 0.65),
    ("char_lstm", "small", 16): targets(1.3, 2.0, 0.80, 0.80),
    ("char_gpt", "full", 4): targets(2.0, 1.2, 0.68, 0.68),
    ("char_gpt", "small", 12): targets(2.0, 1.9, 0.85, 0.85),
}


def one_line(error):
    """Returns an exception as one line of at most 200 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # "backend='inductor' raised:" is followed by the cause.
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {text}"[:200]


def in_turns(sides, blocks):
    """Calls the functions of {key: function} in turn, and all of them `blocks` times.

    Returns ({key: results}, {key: error}). A function that raises is not called again, and its
    results are left out.
    """
    results, errors = {key: [] for key in sides}, {}
    for _ in range(blocks):
        for key, function in sides.items():
            if key in errors:
                continue
            try:
                results[key].append(function())
            except Exception as error:  # the other sides go on
                errors[key] = one_line(error)
    return {key: result for key, result in results.items() if key not in errors}, errors


class Ratio:
    """Median, smallest and largest ratio of two lists of times, block by block."""

    def __init__(self, above, below):
        ratios = [a / b for a, b in zip(above, below)]
        self.median, self.lowest, self.highest = statistics.median(ratios), min(ratios), max(ratios)


def row(facts, times, errors, o0_times, target):
    """Returns a row: its facts, and what the sides' times and errors amount to.

    `times` are seconds of blocks by side, `o0_times` those of Mezzo at O0 or None.
    """
    run = dict(facts)
    for side in SIDES:
        if side in errors:
            run[f"{side}_error"] = errors[side]
        elif side in times:
            run[f"{side}_ms"] = 1e3 * statistics.median(times[side])
    for side, prefix in (("torch", ""), ("compiled", "compiled_")):
        if "mezzo" in times and side in times:
            ratio = Ratio(times[side], times["mezzo"])
            run.update({f"{prefix}ratio": ratio.median, f"{prefix}lowest": ratio.lowest,
                        f"{prefix}highest": ratio.highest})
    if "ratio" in run and target.ratio:
        run["wanted"] = target.ratio
    if "mezzo" in times and o0_times and run["level"] != "O0":
        run["o0_ratio"] = Ratio(times["mezzo"], o0_times).median
        if target.o0_ratio:
            run["o0_wanted"] = target.o0_ratio
    return run


def in_words(run):
    """Returns a row as lines: ratios, whether they meet the targets, and what failed."""
    def judged(text, sign, wanted, met):
        if not wanted:
            return text
        return f"{text} (wanted {sign} {wanted:g}: {'met' if met else 'missed'})"

    name = f"{run['net']} {run['level']}, {run['threads']} threads"
    parts = []
    if "ratio" in run:
        wanted = run.get("wanted")
        parts.append(judged(f"torch/mezzo {run['ratio']:.2f}", ">=", wanted,
                            wanted and run["ratio"] >= wanted))
    if "compiled_ratio" in run:
        parts.append(f"compiled/mezzo {run['compiled_ratio']:.2f}")
    if "o0_ratio" in run:
        wanted = run.get("o0_wanted")
        parts.append(judged(f"mezzo {run['level']}/O0 {run['o0_ratio']:.2f}", "<=", wanted,
                            wanted and run["o0_ratio"] <= wanted))
    lines = [f"{name}: {', '.join(parts)}"] if parts else []
    titles = {"mezzo": "Mezzo failed", "torch": "PyTorch cannot",
              "compiled": "torch.compile failed"}
    return lines + [f"{name}: {titles[side]}: {run[side + '_error']}" for side in SIDES
                    if side + "_error" in run]


def merged(reports):
    """Returns one report of those for each number of threads, with rows of one net and level
    together."""
    runs = [run for report in reports for run in report["runs"]]
    order = {}
    for run in runs:
        order.setdefault((run["net"], run["level"]), len(order))
    runs.sort(key=lambda run: order[run["net"], run["level"]])
    return {**reports[0], "runs": runs}
