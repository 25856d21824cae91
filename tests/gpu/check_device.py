"""Check everything that needs a GPU: ``python tests/gpu/check_device.py``, on a machine with one.

It runs the collectives on cupy arrays on 1, 2 and 4 ranks that share one GPU, with and without a
CUDA-aware MPI as there is one; streams, staging, arrays of other libraries, the kernels of 16-bit
sums, compression; trains a network on the GPU and on the CPU; and takes times. It says in a line
what each part has done.

It ends with 0 if all is right, with 1 if something is wrong or takes too long, and with 2 if there
is no GPU here: then nothing has been checked. `pip install 'hpcdl[cuda,mpich,test]'` brings what
it needs, besides the CUDA libraries that cupy needs (a module, or 'cupy-cuda12x[ctk]').
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    *("what_there_is", "every_algorithm", "every_dtype", "kernels", "streams", "staging"),
    *("other_libraries", "codecs", "timings", "training"),
)
NO_GPU = 2
LOOK = "import cupy, sys; sys.exit(0 if cupy.cuda.is_available() else 'there is no GPU here')"


class Wrong(Exception):
    """Something is not right; the message says what."""


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=[1, 2, 4], help="numbers of ranks (1 2 4)"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="do these only")
    parser.add_argument("--seconds", type=float, default=280.0, help="the time for all of it (280)")
    return parser.parse_args(words)


def run(command: list[str], seconds: float) -> str:
    """Run a command to its end and return what it printed.

    Raises:
        Wrong: it failed, or did not end in time.
    """
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    with tempfile.TemporaryFile("w+") as output:
        job = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = job.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            code = None
        output.seek(0)
        said = output.read()
    if code is None:
        raise Wrong(f"did not end in {seconds:.0f} s\n{said[-4000:]}")
    if code:
        raise Wrong(f"ended with {code}\n{said[-4000:]}")
    return said


def on_ranks(ranks: int, parts: list[str], seconds: float, folder: Path) -> None:
    """Run parts inside mpiexec, and say what they did."""
    from collectives.launch import mpiexec_command

    result = folder / f"{ranks}.jsonl"
    program = [sys.executable, "-m", "tests.gpu.on_device", *parts, "--result", str(result)]
    try:
        run(mpiexec_command(ranks, program), seconds)
    finally:
        for line in result.read_text().splitlines() if result.exists() else []:
            done = json.loads(line)
            tell(ranks, done["part"], done["said"], done["seconds"])


def train(ranks: int, seconds: float, folder: Path) -> None:
    """Train the shipped network on CPU and GPU, in float64: the curves are the same."""
    begin = time.monotonic()
    curves = []
    for device in ("cpu", "cuda"):
        out = folder / f"{device}{ranks}"
        sets = [f"run.device='{device}'", f"run.dir='{out}'", f"run.data_dir='{folder}'"]
        sets += ["train.epochs=2", "run.dtype='float64'"]
        command = [sys.executable, "-m", "hpcdl", "train", "digits-cnn"]
        command += [word for s in sets for word in ("--set", s)]
        run(command + (["-n", str(ranks)] if ranks > 1 else []), seconds)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        curves.append([json.loads(line) for line in lines])
    for cpu, cuda in zip(*curves, strict=True):
        for key in ("train_loss", "test_loss", "train_accuracy", "test_accuracy"):
            if not math.isclose(cpu[key], cuda[key], rel_tol=1e-6):
                raise Wrong(f"epoch {cpu['epoch']}: {key} is {cuda[key]}, on the CPU {cpu[key]}")
    last = curves[1][-1]
    said = f"2 epochs, curves as on the CPU; test accuracy {last['test_accuracy']:.3f}"
    tell(ranks, "training", said, time.monotonic() - begin)


def tell(ranks: int, part: str, said: str, seconds: float) -> None:
    print(f"{ranks} ranks  {part:16s} {seconds:6.1f} s  {said}", flush=True)


def main(words: list[str] | None = None) -> int:
    args = arguments(words)
    sys.path.insert(0, str(ROOT))
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True)
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["cupy does not start"])[-1]
        print(f"nothing was checked: {reason}", file=sys.stderr)
        return NO_GPU
    end = time.monotonic() + args.seconds
    parts = [p for p in PARTS if p in args.parts and p != "training"]
    with tempfile.TemporaryDirectory(prefix="check-device-") as name:
        for ranks in args.ranks:
            try:
                if parts:
                    on_ranks(ranks, parts, end - time.monotonic(), Path(name))
                if "training" in args.parts:
                    train(ranks, end - time.monotonic(), Path(name))
            except Wrong as wrong:
                print(f"WRONG on {ranks} ranks: {wrong}", file=sys.stderr)
                return 1
    print(f"all is right: {len(args.parts)} parts on {', '.join(map(str, args.ranks))} ranks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
