# Everything on a machine without ROS. With ROS 2 installed, build with colcon as usual.

PYTHON ?= python3
ARGS :=

# In the shell, because make's own functions split a path at its spaces.
CLONE := $(shell cd "$$(dirname "$$(echo '$(MAKEFILE_LIST)' | sed 's/^ *//')")" && pwd)

NIOM_ENV ?= $(CLONE)/.venv
ifeq ($(filter /%,$(firstword $(NIOM_ENV))),)
  override NIOM_ENV := $(CURDIR)/$(NIOM_ENV)
endif
export CLONE NIOM_ENV

# Two processes, because tests spend most of their time waiting; files are not split, because the
# tests of a file share nodes and networks.
IN_PARALLEL := -n 2 --dist loadfile

# Not the whole folder: the environment may be in it.
CHECKED := niom_ros environment launch test setup.py

help:           ## show this list
	@echo 'make TARGET [NIOM_ENV=FOLDER] [PYTHON=python3] [ARGS=...]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s%s\n", $$1, $$2}' "$$CLONE/Makefile"

setup:          ## build the environment in .venv, or in the folder NIOM_ENV
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo 'setup: $(PYTHON) is missing or too old: install Python 3.10 to 3.14' \
	    '(Debian, Ubuntu: sudo apt install python3-venv python3-dev),' \
	    'or choose another one: make setup PYTHON=python3.12' >&2; exit 1; }
	@"$(PYTHON)" "$$CLONE/environment/build.py"

demo: setup     ## find a sketched object in a simulated camera, over ROS 2
	@"$$NIOM_ENV/bin/niom" demo $(ARGS)

lint: setup     ## check style, types and import directions
	cd "$$CLONE" && "$$NIOM_ENV/bin/python" -m ruff check $(CHECKED)
	cd "$$CLONE" && "$$NIOM_ENV/bin/python" -m ruff format --check $(CHECKED)
	cd "$$CLONE" && "$$NIOM_ENV/bin/python" -m mypy niom_ros
	cd "$$CLONE" && "$$NIOM_ENV/bin/lint-imports" --no-cache

test: lint      ## lint, then run the tests; ARGS='-k name' selects some
	cd "$$CLONE" && "$$NIOM_ENV/bin/python" -m pytest -m 'not optional' $(IN_PARALLEL) $(ARGS)

test-optional: setup  ## test with models under GPL or non-commercial licences
	cd "$$CLONE" && "$$NIOM_ENV/bin/python" -m pytest -m optional $(ARGS)

soak: setup     ## run a node under load for 20 minutes; ARGS='--minutes 3 --json FILE'
	cd "$$CLONE" && "$$NIOM_ENV/bin/python" test/soak.py $(ARGS)

fuzz: setup     ## try more than 100,000 bad inputs, guided by coverage; takes ten minutes
	cd "$$CLONE" && "$$NIOM_ENV/bin/python" test/fuzz/run.py $(ARGS)

clean:          ## remove build output, and the environment if it is .venv
	[ "$$NIOM_ENV" != "$$CLONE/.venv" ] || rm -rf "$$CLONE/.venv"
	cd "$$CLONE" && rm -rf build install log *.egg-info .*_cache .hypothesis fuzz_failures
	cd "$$CLONE" && find $(CHECKED) -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help setup demo lint test test-optional soak fuzz clean
