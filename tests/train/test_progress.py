import io
from types import SimpleNamespace

import pytest

from hpcdl.hooks import Progress, progress


@pytest.mark.ranks(1)
def test_rate_and_time_left_are_of_the_steps_since_the_line_before(comm, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    run = SimpleNamespace(
        step=0,
        steps=100,
        epoch=0,
        data=SimpleNamespace(steps_per_epoch=100),
        comm=comm,
        tally=[0.0, 0.0, 0.0],
        traffic=SimpleNamespace(seconds=0.0),
        layer_traffic=SimpleNamespace(seconds=0.0),
    )
    written = io.StringIO()
    hook = Progress(every=10, stream=written)
    hook.start(run)
    for step in range(1, 21):
        # The first step compiles for 100 s; those up to 10 take 1 s, the others 2 s.
        clock.now += 100.0 if step == 1 else 1.0 if step <= 10 else 2.0
        run.step = step
        run.tally[2] = 64.0 * step
        run.traffic.seconds += 90.0 if step == 1 else 0.5
        hook.after_step(run)
    first, second = written.getvalue().splitlines()
    assert first.endswith("64 samples/s comm 50 % left 1:30")
    assert second.endswith("32 samples/s comm 25 % left 2:40")
