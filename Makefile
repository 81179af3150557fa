# `make demo` and `make test` set themselves up; nothing but python3 (3.11 to 3.13), pip and make
# is needed. Take another interpreter with `make PYTHON=python3.12 test`.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.installed
FLINK_JAR := .flink/job-server.jar
SPARK_JAR := .spark/job-server.jar
PRISM := .prism/prism
PRISM_VERSION = v$(shell sed -nE 's/^apache-beam(\[.*\])?==([0-9.]+).*/\2/p' requirements/requirements.lock)
# TensorFlow and Beam need no network to be tested, and a laptop's GPU must not change results. Where
# a shell forbids byte code, each of the many processes would compile all modules again. onnxruntime
# tells its makers of each use.
TEST_ENV := CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=3 PYTHONDONTWRITEBYTECODE= \
	ORT_DISABLE_TELEMETRY=1
# Most of the tests' time is XLA's, and many compile the same small model.
XLA_CACHE := TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=$(abspath .venv/xla)
# Tests of other runners wait for processes and have limits of their own, up to an hour on a busy machine.
RUNNER_PYTEST := $(TEST_ENV) $(BIN)/python -m pytest -o faulthandler_timeout=3600
# Each process loads TensorFlow, so more than a few gain nothing; fixtures are shared in a file, and
# tests/conftest.py says in which order the files are best taken.
PYTEST := $(TEST_ENV) $(XLA_CACHE) $(BIN)/python -m pytest -n auto --maxprocesses=4 \
	--dist=loadfile --no-loadscope-reorder --max-worker-restart=0

.PHONY: cloud cloud-down cloud-status help setup demo test test-slow test-release test-flink \
	test-runners test-storage test-tpu-packages lint bench lock clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## / - /'

setup: $(SETUP)  ## make .venv from the locked versions

$(SETUP): .venv/.requirements setup.py
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# uv doesn't read pip's settings, so it is told where pip finds packages. Of 20,000 modules, what hardly
# anybody loads, a third of them, is compiled where it is loaded. Some packages have files that are no
# Python.
.venv/.requirements: requirements/uv.lock requirements/requirements.lock
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit(f"Python 3.11 to 3.13 is needed, $(PYTHON) is {v[0]}.{v[1]}; take another with make PYTHON=python3.12")'
	@echo "installing 3.9 GB of packages into .venv: some minutes ..."
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.lock
	index=$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null)}; \
	UV_SYSTEM_CERTS=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes \
		$${index:+--default-index "$$index"} -r requirements/requirements.lock
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|aiplatform_v1(beta1)?)/' .venv/lib || true
	touch $@

demo: $(SETUP)  ## from text to an encoder and a served model, in demo-output/
	$(BIN)/beambert demo --output=demo-output

test: $(SETUP)  ## the fast tests, offline
	$(PYTEST) -m "not slow and not release and not flink and not runners and not storage"

# These wait for other processes half of the time, so that one more than there are processors gains.
test-slow: $(SETUP)  ## those that take longer: trainings, several processes
	$(PYTEST) -n 3 -m "slow and not release"

test-release: $(SETUP)  ## before a release: processes killed at many moments, benchmarks
	$(PYTEST) -n 3 -m release

test-flink: $(SETUP)  ## the data command on Flink, also with killed processes; needs Java 17, Maven
	@if ! command -v java >/dev/null || ! command -v mvn >/dev/null; then \
		echo "skipped: Java 17 and Maven are needed to fetch and run Flink"; \
	else \
		$(MAKE) --no-print-directory $(FLINK_JAR) && \
		BEAMBERT_FLINK_JAR=$(abspath $(FLINK_JAR)) $(RUNNER_PYTEST) -m flink tests/flink; \
	fi

# What is missing is said; pytest skips the runners that it would fetch.
test-runners: $(SETUP)  ## the Beam commands on Prism, Spark and Flink; needs Go, Java 17 and Maven
	@if command -v java >/dev/null && command -v mvn >/dev/null; then \
		$(MAKE) --no-print-directory $(FLINK_JAR) $(SPARK_JAR); \
	else \
		echo "skipped: Java 17 and Maven are needed to fetch and run Spark and Flink"; \
	fi
	@if command -v go >/dev/null; then \
		$(MAKE) --no-print-directory $(PRISM); \
	else \
		echo "skipped: Go is needed to build Prism"; \
	fi
	BEAMBERT_FLINK_JAR=$(abspath $(FLINK_JAR)) BEAMBERT_SPARK_JAR=$(abspath $(SPARK_JAR)) \
		BEAMBERT_PRISM=$(abspath $(PRISM)) $(RUNNER_PYTEST) -m runners tests/runners

test-storage: .storage/.installed  ## the Beam commands on s3:// and hdfs://, whose clients it installs
	PYTHONPATH=$(abspath .storage) $(TEST_ENV) $(BIN)/python -m pytest -m storage tests/storages

.storage/.installed: requirements/storage.lock $(SETUP)
	rm -rf .storage
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target .storage \
		-r requirements/storage.lock
	touch $@

test-tpu-packages: .venv-tpu/.installed  ## the trainer's tests with exactly what a TPU host has
	TPU_SKIP_MDS_QUERY=1 $(TEST_ENV) .venv-tpu/bin/python -m pytest -n auto --maxprocesses=4 \
		--dist=loadfile -m "not slow and not release" tests/model tests/trainer

.venv-tpu/.installed: requirements/tpu.lock
	$(PYTHON) -m venv --clear .venv-tpu
	.venv-tpu/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	.venv-tpu/bin/pip install --quiet --disable-pip-version-check hypothesis pytest pytest-xdist setuptools
	.venv-tpu/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Maven fails on any file whose checksum is not the published one.
$(FLINK_JAR): tests/flink/pom.xml
$(SPARK_JAR): tests/runners/pom.xml
$(FLINK_JAR) $(SPARK_JAR):
	mvn --quiet --batch-mode --strict-checksums --file $< package
	touch $@

$(PRISM):
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/go/cmd/prism@$(PRISM_VERSION)

# deploy/terraform/terraform.tfvars has the settings; CONFIG=deploy/retrain.toml trains BERT base.
cloud: $(SETUP)  ## set up Google Cloud: PROJECT=… [CONFIG=…] [RELEASE=…] [YES=1]
	$(BIN)/python -m beambert.deploy up --project=$(PROJECT) $(CONFIG:%=--config=%) \
		$(RELEASE:%=--release=%) $(YES:1=--yes)

cloud-status: $(SETUP)  ## the runs on Google Cloud, and the served version
	$(BIN)/python -m beambert.deploy status

cloud-down: $(SETUP)  ## delete all that is on Google Cloud: PROJECT=… [YES=1]
	$(BIN)/python -m beambert.deploy down --project=$(PROJECT) $(YES:1=--yes)

lint: $(SETUP)  ## style and common mistakes
	$(BIN)/ruff check .

bench: $(SETUP) demo-output/vocab.txt  ## the benchmarks that need nothing but this repository
	$(BIN)/python -m benchmarks.data_core
	$(BIN)/python -m benchmarks.training_step

# The demo's text, and a vocabulary of it.
demo-output/vocab.txt: | $(SETUP)
	$(BIN)/python -m beambert.demo.corpus --output=demo-output
	$(BIN)/beambert vocab --input='demo-output/corpus/*.jsonl' --output=$@ --vocab_size=8000

# The repository itself has no hash; it is installed after the others.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --generate-hashes

lock: $(SETUP)  ## resolve the newest versions into requirements/*.lock
	$(COMPILE) --upgrade requirements/uv.in -o requirements/uv.lock
	$(COMPILE) --upgrade --no-emit-package beambert requirements/requirements.in -o requirements/requirements.lock
	for name in worker component; do $(COMPILE) --no-emit-package beambert --no-emit-package tensorflow \
		requirements/$$name.in -o requirements/$$name.lock || exit; done
	for name in gpu jax-tpu jax-gpu; do $(COMPILE) requirements/$$name.in -o requirements/$$name.lock || exit; done
	$(COMPILE) --no-deps requirements/tpu.in -o requirements/tpu.lock
	$(COMPILE) --no-deps requirements/storage.in -o requirements/storage.lock

clean:  ## delete what the other targets made
	rm -rf .venv .venv-tpu .flink .spark .prism .storage demo-output cloud-output build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
