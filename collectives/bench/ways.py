"""Everything that takes a turn at one length: the library's calls, and the plans of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from mpi4py import MPI

from collectives.bench.buffers import Array, Buffers
from collectives.bench.cases import CASES
from collectives.bench.form import Call, Case, Form
from collectives.bench.gloo import Gloo
from collectives.bench.settings import (
    AUTO,
    CALL,
    IN_PLACE,
    OUT_OF_PLACE,
    OVERLAP_BACKGROUND,
    OVERLAP_TEST,
    OVERLAPS,
    PRIVATE,
    SHARED,
    Settings,
)
from collectives.bench.variant import GLOO, LIBRARY, Label, LibraryCall, Overlapped, Variant, Ways
from collectives.options import Options
from collectives.plan import Plan
from collectives.registry import REGISTRY

_TITLES = {IN_PLACE: "MPI in place", OUT_OF_PLACE: "MPI out of place"}
_LATE = 1e-3  # seconds by which a rank comes late to a barrier, to see who does not wait


class RefusedError(ValueError):
    """Nothing of what was asked for can be done here."""

    plain = True


class Builder:
    """Makes the plans and allocates the memory for one length. Collective.

    Args:
        comm: all its ranks take part.
        settings: what to time.
        nbytes: the length asked for.
        note: told of each way that had to be left out, and why.
        gloo: is to be compared with.

    Attributes:
        private: the private memory.
        ways: what has been made so far.
        one_node: all ranks are on the same.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        settings: Settings,
        nbytes: int,
        note: Callable[[str], object],
        gloo: Gloo | None = None,
    ) -> None:
        self._comm, self._settings, self._note, self._gloo = comm, settings, note, gloo
        self._cases: dict[str, Case] = {}
        for placement in dict.fromkeys((PRIVATE, *settings.placements)):
            buffers = Buffers(comm, settings, nbytes, placement)
            self._cases[placement] = CASES[settings.collective.name](comm, settings, buffers)
            if placement == PRIVATE:
                self.private = buffers
        expected = self._cases[PRIVATE].expected
        self._expected = None if expected is None else expected()
        self.ways = Ways(self.private.data.nbytes)
        self._natural = next(iter(self._cases[PRIVATE].forms))
        self._refused = "nothing was asked for"
        self.one_node = len(set(comm.allgather(MPI.Get_processor_name()))) == 1

    def build(self) -> Ways:
        """Return all that the settings ask for.

        Raises:
            RefusedError: there is nothing that can be done.
        """
        ours = 0
        self.add_library()
        self._add_gloo()
        for label in self._wanted():
            reason = self.add(label)
            if reason:
                self._refuse(f"{label.text}: {reason}")
            ours += not reason
        if not ours:
            self.ways.close()
            raise RefusedError(f"{self._settings.name}: nothing can be timed; {self._refused}")
        return self.ways

    def _wanted(self) -> Iterator[Label]:
        s = self._settings
        names = s.algorithms or (*REGISTRY.names(s.collective), AUTO)
        for placement in s.placements:
            for mode in s.modes or (self._natural,):
                if self._form(placement, mode) is None:
                    self._refuse(f"{mode}: a plan of {s.name} does not work that way")
                    continue
                for executor in s.executors:
                    # The shared executor has no schedules to choose from.
                    for algorithm in (AUTO,) if executor == SHARED else names:
                        yield Label(algorithm, executor, placement, mode)

    def _refuse(self, reason: str) -> None:
        """Tell what is left out, and keep it: it may be all that was asked for."""
        self._refused = reason
        self._note(reason)

    def add_library(self) -> None:
        """Add the MPI library's own calls, in place and out of place."""
        modes = self._settings.modes or (IN_PLACE,)
        for name, make in self._cases[PRIVATE].forms.items():
            form = make()
            if form.library is None or form.begin is None:
                continue
            result = form.result if form.library_result is None else form.library_result
            label = Label(_TITLES[name], LIBRARY, PRIVATE, name)
            if set(modes) - set(OVERLAPS):
                self.ways.variants.append(self._variant(label, form, form.library, result))
            for mode in OVERLAPS:
                if mode in modes:
                    label = Label(_TITLES[name], LIBRARY, PRIVATE, mode)
                    call = LibraryCall(form.begin)
                    self.ways.overlapped.append(self._overlapped(label, form, call, result))

    def _add_gloo(self) -> None:
        if self._gloo is None:
            return
        found = self._gloo.call(self._settings, self.private)
        if found is None:
            self._note(f"gloo: has no {self._settings.name} of {self._settings.dtype}")
            return
        name, call = found
        form = self._cases[PRIVATE].forms[name]()
        label = Label(GLOO, GLOO, PRIVATE, name)
        self.ways.variants.append(self._variant(label, form, call, form.result))

    def add(self, label: Label) -> str:
        """Add a way of ours, last; return why not, where it cannot be had.

        Args:
            label: what is asked for; its executor and algorithm may be "auto".
        """
        form = self._form(label.placement, label.mode)
        if form is None:
            return f"a plan of {self._settings.name} does not work that way"
        options: Options = {
            "algorithm": label.algorithm,
            "executor": label.executor,
            "table": self._settings.table,
            "background": label.mode == OVERLAP_BACKGROUND,
        }
        plan, reason = self._plan(form, options)
        if plan is None:
            return reason
        label = Label(label.algorithm, plan.executor, label.placement, label.mode, plan.algorithm)
        if label.mode == CALL:
            plan.close()
            assert form.call is not None
            call: Call = partial(form.call, **options)
            self.ways.variants.append(self._variant(label, form, call, form.result))
            return ""
        self.ways.closing.append(plan.close)
        if label.mode in OVERLAPS:
            self.ways.overlapped.append(self._overlapped(label, form, plan, form.result))
        else:
            call = plan.run if form.copy is None else partial(_copy_and_run, form.copy, plan.run)
            self.ways.variants.append(self._variant(label, form, call, form.result))
        return ""

    def _form(self, placement: str, mode: str) -> Form | None:
        """Return what a mode stands for; None where the collective has no such form. Collective."""
        name = mode if mode in (IN_PLACE, OUT_OF_PLACE) else self._natural
        make = self._cases[placement].forms.get(name)
        form = None if make is None else make()
        return None if form is None or form.plan is None else form

    def _plan(self, form: Form, options: Options) -> tuple[Plan | None, str]:
        """Make a plan on all ranks, or on none; return it, or why not."""
        assert form.plan is not None
        plan, reason = None, ""
        try:
            plan = form.plan(**options)
        except (ValueError, TypeError, ImportError) as error:
            reason = str(error) or type(error).__name__
        reasons = [r for r in self._comm.allgather(reason) if r]
        if not reasons:
            return plan, ""
        if plan is not None:
            plan.close()
        return None, reasons[0]

    def _variant(self, label: Label, form: Form, call: Call, result: Array) -> Variant:
        wrong = partial(self._wrong, form, result, call)
        return Variant(label, form.reset, form.blank, call, wrong)

    def _overlapped(
        self, label: Label, form: Form, pending: Plan | LibraryCall, result: Array
    ) -> Overlapped:
        wrong = partial(self._wrong, form, result)
        return Overlapped(label, form.reset, pending, label.mode == OVERLAP_TEST, wrong)

    def _wrong(self, form: Form, result: Array, call: Call) -> int:
        """Do it from the beginning, and count what is wrong on this rank."""
        form.reset()
        if self._expected is None:
            return self._left_early(call)
        call()
        return int(np.count_nonzero(result != self._expected))

    def _left_early(self, call: Call) -> int:
        """Return how often this rank leaves a barrier to which another has not come yet."""
        early = 0
        for late in range(min(self._comm.Get_size(), 4)):
            self._comm.Barrier()
            if self._comm.Get_rank() == late:
                time.sleep(_LATE)
            came = time.monotonic()
            call()
            left = time.monotonic()
            last = self._comm.allreduce(came, MPI.MAX)
            # The clocks of two nodes do not agree.
            early += self.one_node and left < last
        return early


def _copy_and_run(copy: Call, run: Call) -> None:
    copy()
    run()
