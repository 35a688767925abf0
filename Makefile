# Every target makes .venv by itself; PYTHON picks the interpreter (3.11 or newer), ARGS adds options to `make coverage`.
PYTHON ?= python3
BIN := .venv/bin
VENV := .venv/.installed
# Percent of the lines of etcd_coverage/ that the default suite runs; the rest is run by integration tests.
FLOOR := 97
TOOLS := .tools/bin
SHELL_SCRIPTS = .ci/run $(wildcard *.sh patches/kubernetes/*.sh tools/*.sh tools/*/*.sh) $(filter-out %.py,$(wildcard meta_tests/doubles/*))

.DEFAULT_GOAL := coverage
# They would take git, make and cd to other places than they are sent to.
unexport GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE CDPATH
.PHONY: help coverage test integration cover check docs wheels parity tools fuzz usages mutants bench clean k8s-coverage robustness-coverage local-coverage

help:  ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/\1: \2/p' Makefile

coverage: $(VENV)  ## judge every dump in testdata/ and print its tables
	$(BIN)/etcd-coverage -v --require-dumps $(ARGS)

test: $(VENV)  ## run every test that needs no server
	$(BIN)/pytest -W error -n auto -m "not integration" tests meta_tests $(ARGS)

cover: $(VENV)  ## measure which lines the tests without servers run, and hold them to a floor
	$(BIN)/coverage erase
	@# Without the test that limits the size of files: what coverage writes would not fit either.
	$(BIN)/coverage run -m pytest -q -n auto -m "not integration" -k "not does_not_fit_on_the_disk" tests meta_tests
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --fail-under=$(FLOOR)

integration: $(VENV) tools  ## run the tests that drive real servers
	$(BIN)/pytest -W error -m integration tests meta_tests

docs: $(VENV)  ## write the lists and the schema in the documents that follow the code
	$(COG) -r $(WITH_LISTS)
	$(BIN)/python -m tools.docs

WITH_LISTS = README.md docs/coverage.md docs/history.md
COG = $(BIN)/cog -I . --verbosity=1

check: $(VENV)  ## lint, format, types, shell scripts, and lists in the documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/shellcheck -x $(SHELL_SCRIPTS)
	$(COG) --check --check-fail-msg='run: make docs' $(WITH_LISTS)
	$(BIN)/python -m tools.docs --check

JUDGE = $(BIN)/etcd-coverage -v "$$dump"
# The collectors run in .venv, whatever made it.
# COLLECTOR=receive takes the traces without Jaeger, and makes a folder of them.
SUFFIX = $(if $(filter receive,$(COLLECTOR)),,.json)
COLLECT = PYTHON="$(CURDIR)/$(BIN)/python"

# By another name, lest make -n build etcd.
SUBMAKE = $(MAKE)

k8s-coverage: $(VENV)  ## collect a dump from a kind cluster and judge it: docs/collect.md
	@# Without Go or the clone the script tells all that is missing in one list.
	@etcd="$${ETCD_REPO:-$$(go env GOPATH 2>/dev/null)/src/go.etcd.io/etcd}"; \
	if command -v go >/dev/null && [ -d "$$etcd" ]; then $(SUBMAKE) -C "$$etcd" build; fi
	$(COLLECT) ./collect_kind_traces.sh
	@dump=$${OUTPUT:-testdata/traces$(SUFFIX)} && \
	tag=$$(git -C "$${KUBERNETES_REPO:-$$(go env GOPATH)/src/k8s.io/kubernetes}" describe --tags --match 'v*') && \
	version=$$(printf '%s\n' "$$tag" | sed -E 's/^v([0-9]+\.[0-9]+).*/\1/') && \
	$(JUDGE) --kubernetes-version "$$version"

robustness-coverage: $(VENV)  ## collect a dump from etcd's robustness tests and judge it: docs/collect.md
	$(COLLECT) ./collect_robustness_traces.sh
	@dump=$${OUTPUT:-testdata/demo_traces$(SUFFIX)} && $(JUDGE)

KUBERNETES ?= 1.37

# Whether this project's receiver takes the traces, into a folder, or Jaeger, into a file.
local-coverage: COLLECTOR ?= receive
local-coverage: $(VENV)  ## collect a dump from a control plane on loopback, without Docker, and judge it: docs/collect.md
	$(COLLECT) ./collect_local_traces.sh --kubernetes $(KUBERNETES) --collector $(COLLECTOR) $(ARGS)
	@dump=$${OUTPUT:-testdata/kubernetes-$(KUBERNETES)-local$(if $(filter jaeger,$(COLLECTOR)),.json.gz)} && $(JUDGE) --kubernetes-version $(KUBERNETES)

# A collector and a make, or two of either, may build at once.
ONCE = tools/once.sh $@ $^ --

$(TOOLS)/kind: tools/kind/go.mod tools/kind/go.sum
	$(ONCE) go build -C tools/kind -o "$(CURDIR)/$@.part" sigs.k8s.io/kind

$(TOOLS)/kwok: tools/kwok/go.mod tools/kwok/go.sum | $(TOOLS)/kwok-stages.yaml
	$(ONCE) env CGO_ENABLED=0 go build -C tools/kwok -o "$(CURDIR)/$@.part" sigs.k8s.io/kwok/cmd/kwok

$(TOOLS)/kwok-stages.yaml: tools/kwok/go.mod tools/kwok/go.sum
	$(ONCE) sh -c 'cd "$$(cd tools/kwok && go list -m -f "{{.Dir}}" sigs.k8s.io/kwok)/kustomize/stage" && \
	sed -s "1i ---" node/fast/node-*.yaml node/heartbeat-with-lease/node-*.yaml pod/fast/pod-*.yaml >"$(CURDIR)/$@.part"'

$(TOOLS)/collector: tools/collector/go.mod tools/collector/go.sum tools/collector/main.go
	cd tools/collector && CGO_ENABLED=0 go build -o $(CURDIR)/$@ .

tools: $(TOOLS)/collector $(TOOLS)/etcd $(TOOLS)/jaeger $(TOOLS)/kind $(TOOLS)/kwok $(TOOLS)/go_original.test  ## build the programs that the integration tests drive (Jaeger takes minutes)

# Not `go install package@version`: it refuses modules with replace directives, which both have.
$(TOOLS)/etcd: tools/etcd/go.mod tools/etcd/go.sum
	$(ONCE) go build -C tools/etcd -o "$(CURDIR)/$@.part" go.etcd.io/etcd/server/v3

$(TOOLS)/jaeger: tools/jaeger/go.mod tools/jaeger/go.sum
	$(ONCE) go build -C tools/jaeger -o "$(CURDIR)/$@.part" github.com/jaegertracing/jaeger/cmd/jaeger

# The Go original: a test binary, so `go test -c`; none of its files is committed.
$(TOOLS)/go_original.test: tools/go_original/go.mod tools/go_original/go.sum
	$(ONCE) go test -C tools/go_original -c -o "$(CURDIR)/$@.part" go.etcd.io/etcd/tests/v3/robustness/coverage

parity: $(VENV) $(TOOLS)/go_original.test  ## compare with etcd's Go tests, figure by figure, on real and mutated dumps
	$(BIN)/pytest meta_tests/test_go_original.py

fuzz: $(VENV)  ## break dumps and saved usages at random for ten minutes, or ARGS="--seconds N --seed N"
	$(BIN)/python -m tools.fuzz $(ARGS)

usages: $(VENV)  ## save the usages of the demo dumps again
	@for dump in testdata/kubernetes-1.[0-9][0-9].json.gz; do name=$$(basename "$$dump"); \
	$(BIN)/etcd-coverage -q "$$dump" --origins=all --usage-json="usage/$${name%.gz}" || exit 1; \
	done

wheels: $(VENV)  ## try the wheel on every Python that is here, each in an empty environment
	$(BIN)/python tools/wheels.py

mutants: $(VENV)  ## change the source in small ways and report what no test notices; takes an hour, ARGS="MODULE..." less
	$(BIN)/python -m tools.mutants $(ARGS)

bench: $(VENV)  ## time the suite against json.load; takes some minutes
	$(BIN)/python -m benchmarks.bench

clean:  ## remove what the other targets made
	rm -rf .venv logs fuzz .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11 ...")'
	$(ONCE) sh -c '$(PYTHON) -m venv .venv && \
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]" && touch $@.part'
