# Two commands need nothing but Python 3.11+ and make beforehand: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup lock demo test check infra-check keda-test k8s-test observe-test fuzz fault-smoke fault-gpu soak bench-pipeline bench-admission bench-engine bench-memory bench-gpu bench-batching bench-affinity bench-fairness bench-deadline bench-autoscale bench-reproducibility clean

help: ## list the commands
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 23

setup: $(READY) ## install everything that is locked, with its hashes, into .venv

# The stamp is written last, as venv writes its activate: an interrupted set-up starts again and finds what it had already downloaded.
$(READY): infra/bootstrap.lock infra/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "promptkiln needs Python 3.11 or newer; set PYTHON=")'
	test -f $(BIN)/activate || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r infra/bootstrap.lock
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --require-hashes --compile-bytecode -r infra/requirements.lock
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

lock: $(READY) ## solve the dependencies again and write their hashes
	$(BIN)/uv pip compile pyproject.toml --group dev --extra demo --extra gpu --extra infra --extra traces --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --output-file infra/requirements.lock
	for image in build services gpu; do $(BIN)/uv pip compile infra/images/$$image.in --constraint infra/requirements.lock \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
		--output-file infra/images/$$image.lock || exit 1; done

demo: $(READY) ## the main job: broker, admission, two GPU consumers, 60 prompts, a contact sheet
	$(BIN)/kiln demo

check: $(READY) ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/kiln configs check

test: $(READY) ## unit, property, contract and integration tests on a real Kafka
	-$(BIN)/python -m tests.s3server
	$(BIN)/pytest tests/unit tests/property tests/contract tests/integration

keda-test: $(READY) ## KEDA's own code reads a pool's group through its life, as docs/autoscaling.md says (needs Go)
	-$(BIN)/python -m tests.keda.build
	$(BIN)/pytest tests/keda

k8s-test: $(READY) ## a real control plane and KEDA scale pools from nothing to four and back (needs Go; DRAW=file)
	$(BIN)/python -m tests.k8s $(if $(DRAW),--draw $(DRAW))

observe-test: $(READY) ## every panel and every rule, asked of a real Prometheus that scrapes a running pipeline (PLOTS=folder draws)
	PLOTS=$(PLOTS) $(BIN)/pytest tests/observe

infra-check: $(READY) ## everything that is rendered, the images and compose.yaml are valid, and each check can fail; needs Go
	$(BIN)/pytest -q tests/infra --ignore tests/infra/rules
	$(BIN)/python -m tests.infra.run

fuzz: $(READY) ## 200,000 mutated records through a decision, guided by coverage, then through a broker (SEED=n, RECORDS=n)
	$(BIN)/python -m tests.fuzz.run $(if $(SEED),--seed $(SEED)) $(if $(RECORDS),--records $(RECORDS))
	$(BIN)/python -m tests.fuzz.live $(if $(SEED),--seed $(SEED)) $(if $(RECORDS),--records $(RECORDS))

fault-smoke: $(READY) ## 200 requests under SIGKILL, freezes and a reset of both groups (SEED=n replays)
	$(BIN)/python -m tests.fault.smoke $(if $(SEED),--seed $(SEED))

fault-gpu: $(READY) ## every fault of a card in the middle of 100 requests, and what came of it (ONLY="name name")
	$(BIN)/python -m tests.fault.gpu.run $(if $(ONLY),--only $(ONLY))

soak: $(READY) ## what takes long: fault-smoke with new seeds (ROUNDS=n), 500 requests without growth, a deep restart, 400 shapes
	$(BIN)/python -m tests.fault.smoke --rounds $(or $(ROUNDS),10)
	$(BIN)/python -m tests.fault.soak.steady
	$(BIN)/pytest -s tests/fault/soak

bench-pipeline: $(READY) ## events a second and latency end to end, beside a raw copy loop
	$(BIN)/python -m tests.benchmarks.pipeline

bench-admission: $(READY) ## admission beside a copy loop, FastStream, Quix Streams and Bytewax (PEERS=none, PROMPTS=file)
	$(BIN)/python -m tests.benchmarks.admission $(if $(PEERS),--peers $(PEERS)) $(if $(PROMPTS),--prompts $(PROMPTS))

bench-engine: $(READY) ## the step loop beside stock diffusers: throughput and levels apart
	$(BIN)/python -m tests.benchmarks.engine

bench-memory: $(READY) ## what fits, known beforehand: a fragmenting card replayed, and a matrix of live tensors
	$(BIN)/python -m tests.benchmarks.memory

bench-gpu: $(READY) ## steps, joins, memory, swaps and bytes on the card, on the CPU where there is none
	$(BIN)/python -m tests.benchmarks.gpu

bench-batching: $(READY) ## step batching on a virtual device, beside Ray Serve, LitServe and BentoML (PEERS=none)
	$(BIN)/python -m tests.benchmarks.batching $(if $(PEERS),--peers $(PEERS))

bench-affinity: $(READY) ## routing to where a model is loaded, on a virtual clock, beside arrival order
	$(BIN)/python -m tests.benchmarks.affinity

bench-fairness: $(READY) ## what one tenant's flood costs another, on a virtual clock
	$(BIN)/python -m tests.benchmarks.fairness

bench-deadline: $(READY) ## deadlines met when more is asked for than can be done, on a virtual clock
	$(BIN)/python -m tests.benchmarks.deadline

bench-autoscale: $(READY) ## what a week costs with each way to scale, on a virtual clock: some minutes
	$(BIN)/python -m tests.benchmarks.autoscale

bench-reproducibility: $(READY) ## how far a picture moves when it is drawn otherwise
	$(BIN)/python -m tests.benchmarks.reproducibility

clean: ## remove what was made here: .kiln and .venv
	rm -rf .kiln $(VENV)
