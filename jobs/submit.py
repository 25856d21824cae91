"""Hand a batch script to Slurm."""

import subprocess


class SubmitError(RuntimeError):
    """Slurm is not there, or refused the script; the message is its own."""


def submit(script: str) -> str:
    """Submit the text of a batch script with ``sbatch``.

    Returns:
        The number of the job, as text.

    Raises:
        SubmitError: there is no ``sbatch``, or it refused the script.
    """
    try:
        done = subprocess.run(
            ["sbatch", "--parsable"], input=script, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise SubmitError("sbatch was not found: is this a machine of a Slurm cluster?") from error
    if done.returncode != 0:
        raise SubmitError(done.stderr.strip() or f"sbatch ended with {done.returncode}")
    return done.stdout.strip().split(";")[0]  # "JOB" or "JOB;CLUSTER"
