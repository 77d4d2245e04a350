# The front door. Each target sets up what it needs (tools/setup) and ends by itself.

PREFIX ?= /usr/local
DESTDIR ?=
# OFF builds without the page, and without Node.
WEB ?= ON
export WEB
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
VENV := build/venv
PYTHON_TOOLS = $(VENV)/bin/python

GOALS := all build release wheel dev check test test-all demo bench lint format install uninstall clean asan tsan fuzz
VARIABLES := PREFIX DESTDIR WEB JOBS ARGS V CC CFLAGS CPPFLAGS LDFLAGS PROBING_%
.PHONY: $(GOALS)

# What is misspelt is said, not passed over: a folder of the goal's name is no goal, and a variable
# that nobody reads changes nothing.
unknown := $(filter-out $(GOALS),$(MAKECMDGOALS))
ifneq ($(unknown),)
$(error no goal '$(firstword $(unknown))'; there are: $(GOALS))
endif
given := $(foreach name,$(.VARIABLES),$(if $(filter command line,$(origin $(name))),$(name)))
unknown := $(filter-out $(VARIABLES) MAKE%,$(given))
ifneq ($(unknown),)
$(error no variable '$(firstword $(unknown))'; there are: $(VARIABLES))
endif

all build: release

release:
	@tools/setup build
	@cmake --preset release -DWEB=$(WEB) >build/release.log || { cat build/release.log; exit 1; }
	@cmake --build --preset release -j $(JOBS)

# The Python package, for pip; its path is printed.
wheel: release
	@tools/wheel build/release

dev:
	@tools/setup test
	@cmake --preset dev -DWEB=$(WEB) >build/dev.log || { cat build/dev.log; exit 1; }
	@cmake --build --preset dev -j $(JOBS)

# Unit, lint and bounded fuzz tests, then the real binary against real interpreters, several files
# at a time where the rights are there. Both run even if the first fails. What failed runs once more,
# alone, and is named at the end if it passed then (PROBING_TEST_STRICT=1: no test runs twice).
test: dev
	@rc=0; rm -f build/flaky.json; $(PYTHON_TOOLS) tests/unit/run.py dev $(JOBS) build/flaky.json || rc=1; \
	PROBING_BIN=$(CURDIR)/build/dev/probing \
		$(PYTHON_TOOLS) tests/e2e/run.py --flaky build/flaky.json || rc=1; \
	exit $$rc

# The same with what `make test` leaves out: tests that take long and are like others, and all
# interpreters where three stand for them.
test-all: export PROBING_TEST_ALL = 1
test-all: test

# Between two edits: the same without fuzzers, and of the end-to-end tests those of the main commands
# on one interpreter.
CHECKED := cli list stacks threads inject eval query serve web
check: dev
	@rc=0; ctest --preset dev -j $(JOBS) -LE fuzz || rc=1; \
	PROBING_TEST_ONLY=newest PROBING_BIN=$(CURDIR)/build/dev/probing \
		$(PYTHON_TOOLS) tests/e2e/run.py $(CHECKED:%=test_%.py) || rc=1; \
	exit $$rc

demo: release
	@tools/demo $(CURDIR)/build/release/probing

bench: release
	@tools/setup bench
	@PROBING_BIN=$(CURDIR)/build/release/probing $(PYTHON_TOOLS) tests/bench/run.py $(ARGS)

lint: dev
	@ctest --preset dev -L lint

# The same tests under the sanitizers.
asan tsan:
	@tools/setup test
	@cmake --preset $@ -DWEB=$(WEB) >build/$@.log || { cat build/$@.log; exit 1; }
	@cmake --build --preset $@ -j $(JOBS)
	@ctest --preset $@ -j $(JOBS)

# Fuzzers driven by coverage (clang); a longer run than the one in `make test`.
fuzz:
	@tools/setup fuzz
	@cmake --preset fuzz -DWEB=$(WEB) >build/fuzz.log || { cat build/fuzz.log; exit 1; }
	@cmake --build --preset fuzz -j $(JOBS)
	@ctest --preset fuzz -L fuzz

format:
	@tools/setup format
	@git ls-files --cached --others --exclude-standard 'src/*.[ch]' 'tests/*.[ch]' | xargs clang-format -i

# Under DESTDIR and PREFIX; what lies there may be moved as a whole. The list of files is in
# build/release/install_manifest.txt.
install: release
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(abspath $(PREFIX))'
	@[ -e build/duckdb/libduckdb.so ] || echo "installed without the SQL engine: see docs/sql.md" >&2

uninstall:
	@tools/uninstall build/release '$(DESTDIR)'

clean:
	rm -rf build
