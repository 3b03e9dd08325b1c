"""Common parts of the comparisons with PyTorch: options, threads, running the bench.

Used by bench_torch.py, torch_ranks.py and compare_torch_ops.py.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def parser(doc, threads):
    """Returns a parser with the options that all comparisons share."""
    result = argparse.ArgumentParser(description=doc.splitlines()[0])
    result.add_argument("--bench", default="build/samples/bench")
    result.add_argument("--threads", type=int if threads else str, default=threads)
    result.add_argument("--blocks", type=int, default=5)
    return result


def load_torch(threads):
    """Imports torch with this number of threads."""
    # These variables must be set before torch starts its threads. Two active thread pools on two
    # cores make torch twice as slow.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        import torch
    except ImportError:
        sys.exit(f"{os.path.basename(sys.argv[0])}: no torch in this python3; apt-get install "
                 "python3-torch and use /usr/bin/python3")
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    return torch


def median_seconds(step, count):
    """Returns the median seconds of `count` calls of step()."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def run_bench(bench, *options):
    command = [bench, *(str(option) for option in options)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def mpirun(ranks):
    """Returns the command that runs a program in so many processes, also on fewer cores."""
    says = subprocess.run(["mpirun", "--version"], check=True, capture_output=True, text=True)
    options = ["--oversubscribe", "--bind-to", "none"] if "Open MPI" in says.stdout else []
    return ["mpirun", *options, "-np", str(ranks)]


def mpi_environment():
    """Returns the environment of mpirun, which Open MPI refuses to root without these."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def bench_report(bench, *options):
    """Runs `bench` with these options and returns its JSON report."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        run_bench(bench, *options, "--json", path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)
