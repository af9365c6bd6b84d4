# Everything that a developer runs. `make help` lists it.
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Files of tests run side by side: many wait for Spark, a server or a clock that ticks.
TEST_WORKERS ?= 4
# Seconds after which a whole run of tests is ended, whatever it hangs in; each test has its own limit in the suite.
TEST_LIMIT ?= 2400
# Ctrl-C ends what a target has started, and so does its end.
RUN := $(PYTHON) scripts/supervise.py
PYTEST = $(RUN) --limit $(TEST_LIMIT) $(BIN)/python scripts/run_tests.py $(AGAIN) --workers=$(TEST_WORKERS)
TEST_TIMES := build/test-times.json
STRESS_RUNS ?= 3
UNCOMPILED ?= $(addprefix tests/,bench broker channel conformance durable fuzz mqtt retainer session transport)
# Where it is set, each process compiles all its modules once more: half of what collecting tests or starting a node takes.
unexport PYTHONDONTWRITEBYTECODE
# Each target installs what it needs, at its first use.
SET_UP = $(PYTHON) scripts/check_python.py && $(PYTHON) -m scripts.set_up
BENCHMARKS := run scale durable subscriptions retained storage_ingest rules pipeline_read live_path actions bridge control access_slow_backend access_connect access_publish tracing dashboard backup
# Figures whose CPU time for each message "make bench -- --before" compares.
COMPARED := qos0 qos1 qos2 fan-in fan-out pairs never-matching

.PHONY: --before help setup docs demo demo-live test test-long test-uncompiled test-stress test-times answers lint lint-page screenshots wheel spark-versions release conformance mutations bench fuzz crash kills kills-actions sim attack strangers clean format

help: ## list what there is
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## virtual environment with everything for development, compiled modules (twice does nothing)
	@$(SET_UP) everything

demo: ## a year of real weather from MQTT to tables, alerts and a picture
	@$(SET_UP) demo
	@$(RUN) $(BIN)/python examples/weather/demo.py

demo-live: ## the same stations at a pace, with rules, a pipeline and the dashboard, until Ctrl-C
	@$(SET_UP) demo
	@$(RUN) $(BIN)/python examples/weather/live.py

test: ## the test suite
	@$(SET_UP) test
	@$(PYTEST) --cpu-times=$(TEST_TIMES) -m "not long" $(PYTEST_ARGS)

test-long: test-uncompiled ## what `make test` has in a short form only: kills, clusters, more seeds and examples, the whole demo
	@HELIOGRAPH_TESTS=whole $(PYTEST) -m "long or hypothesis" $(PYTEST_ARGS)

test-uncompiled: ## the tests of the compiled packages, uncompiled
	@$(SET_UP) test
	@HELIOGRAPH_PURE=1 $(PYTEST) -m "not service and not long" $(UNCOMPILED) $(PYTEST_ARGS)

test-stress: ## the suite with four times as many workers as cores and stress-ng beside it; STRESS_RUNS=3
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/stress_tests.py --runs $(STRESS_RUNS) -m "not long" $(PYTEST_ARGS)

test-times: ## CPU time of each group of tests in the last `make test`, beside its budget; TIMES_ARGS=--propose
	@$(PYTHON) scripts/test_times.py $(TIMES_ARGS)

answers: ## what the HTTP API and `heliograph ctl` answer, a file for each call; ANSWERS_ARGS="build/before --source DIR"
	@$(SET_UP) test
	@$(RUN) $(BIN)/python -m scripts.record_answers $(or $(ANSWERS_ARGS),build/answers)

lint: ## ruff, mypy --strict, import layers, words of the glossary, types of the dashboard's modules
	@$(SET_UP) lint
	@$(RUN) $(BIN)/ruff check .
	@$(RUN) $(BIN)/ruff format --check .
	@$(RUN) $(BIN)/mypy src bench/src tests benchmarks scripts examples/weather
	@$(RUN) $(BIN)/lint-imports
	@$(RUN) $(BIN)/python scripts/check_words.py
	@$(RUN) $(BIN)/python -m scripts.lint_page

lint-page: ## types of the dashboard's modules, by TypeScript (where npm is installed)
	@$(SET_UP)
	@$(RUN) $(BIN)/python -m scripts.lint_page

screenshots: ## pictures of every page of the dashboard, in docs/images/dashboard
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/screenshots.py $(SCREENSHOTS_ARGS)

wheel: ## build packages, install them elsewhere, publish through a broker there; WHEEL_ARGS=--all: for every Python
	@$(SET_UP) wheel
	@$(RUN) $(BIN)/python -m scripts.check_wheel $(WHEEL_ARGS)

spark-versions: ## heliograph-spark with each version of Spark that it is for; SPARK_ARGS=4.1.4
	@$(SET_UP) wheel
	@$(RUN) $(BIN)/python -m scripts.spark_versions $(SPARK_ARGS)

mutations: ## puts mended faults back: the tests have to find each; MUTATIONS_ARGS="--only tracing/"
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/mutations.py $(MUTATIONS_ARGS)

release: ## everything that a release consists of, built and checked, in dist
	@$(SET_UP) wheel
	@$(RUN) $(BIN)/python -m scripts.check_wheel --all --into dist

docs: ## manual pages of every command, in build/man
	@$(SET_UP)
	@$(RUN) $(BIN)/python scripts/man_pages.py

conformance: ## normative statements of MQTT that stand at no line of code or in no test
	@$(SET_UP)
	@$(RUN) $(BIN)/python scripts/conformance.py

fuzz: ## random input to decoder, channels and transports, for as long as FUZZ_ARGS says
	@$(SET_UP) fuzz
	@$(RUN) $(BIN)/python scripts/fuzz.py $(FUZZ_ARGS)

crash: ## kill -9, disk faults and lost power under real clients, a hundred times; CRASH_ARGS="--seed 7"
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/crash.py $(CRASH_ARGS)

kills: ## kill -9 to driver, Spark workers and broker of a lake that must not differ; KILLS_ARGS="--seed 7"
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/kills.py $(KILLS_ARGS)

kills-actions: ## kill -9 to runner, node and targets of actions, fifty times each; KILLS_ARGS="--seed 7"
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/kills_actions.py $(KILLS_ARGS)

sim: ## ten thousand seeded histories on a fake clock, disk and network; SIM_ARGS="--seed 7"
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/sim.py $(SIM_ARGS)

attack: ## every known way to stop or fill a broker, and what a victim notices; ATTACK_ARGS="--short"
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/attack.py $(ATTACK_ARGS)

strangers: ## the steps at which people and programs from elsewhere stumbled, on a broker of its own
	@$(SET_UP) test
	@$(RUN) $(BIN)/python scripts/strangers.py

format: ## let ruff format the code
	@$(SET_UP) lint
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: ## the canonical benchmarks, beside peers; BENCH_ARGS=--check; "make bench -- --before": beside HEAD~1
	@$(SET_UP) bench
ifneq ($(filter --before,$(MAKECMDGOALS)),)
	@$(RUN) $(BIN)/python benchmarks/run.py --before --no-peer --only $(COMPARED) --check $(BENCH_ARGS)
else
	@missed=; for each in $(BENCHMARKS); do \
		$(RUN) $(BIN)/python benchmarks/$$each.py $(BENCH_ARGS) \
			|| { code=$$?; test $$code -lt 128 || exit $$code; missed="$$missed $$each"; }; \
	done; test -z "$$missed" || { echo "make bench: these failed:$$missed" >&2; exit 1; }
endif

--before: # an option of bench
	@:

clean: ## remove what make has made; a broker's ./data stays
	rm -rf $(VENV) build dist demo-output bench-output fuzz-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf src/heliograph.egg-info bench/build bench/src/heliograph_bench.egg-info .import_linter_cache
	find src bench tests benchmarks examples -name '__pycache__' -type d -prune -exec rm -rf {} +
	find src bench -name '*.so' -delete
