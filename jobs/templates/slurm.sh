#!/bin/bash
@{directives}

set -eo pipefail
@{setup}set -u  # only now: environment modules and conda read variables that are not set

export OMP_NUM_THREADS=@{threads}
restarts=${SLURM_RESTART_COUNT:-0}
echo "job $SLURM_JOB_ID ($SLURM_JOB_NAME), restarts so far: $restarts, $(date -Is)"
echo "site @{site}, nodes $SLURM_JOB_NODELIST: @{size}"
echo "first node $(uname -nsrm), in $PWD"

# Slurm signals this shell alone (--signal=B:), and a shell runs a trap only between commands or in
# "wait": so the ranks run in the background, and what arrives is passed on to them.
child=
warned=no
forward() {
    signalled=yes
    if [[ -n $child ]]; then
        @{forward} 2>/dev/null || true
    fi
}
trap 'warned=yes; forward USR1' USR1
trap 'forward TERM' TERM

@{launch} &
child=$!

# A signal ends "wait" early, with a status that is not the program's: wait again.
signalled=yes
while [[ $signalled == yes ]]; do
    signalled=no
    status=0
    wait "$child" || status=$?
done

echo "exit code $status, $(date -Is)"
if ((status > 128)); then
    echo "a rank was ended by signal $((status - 128)); the first error above tells why"
fi
if [[ $warned == yes && $status != 0 ]] && ((restarts < @{requeues})); then
    echo "stopped by the time limit: back into the queue"
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
