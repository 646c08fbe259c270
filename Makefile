# SPDX-FileCopyrightText: The CAPT Authors
# SPDX-License-Identifier: Apache-2.0

# CAPT is built and tested with Go and GNU make. Every other tool is built from Go modules into bin/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The steps of a test run compete for the same cores, and their output must stay readable.
.NOTPARALLEL:

export CGO_ENABLED := 0
export GOWORK := off
# The sandbox builds its programs with this flag, too. Without it, everything that they share with tests would be compiled twice, and CAPT itself once
# per checkout.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
# Compilers are short-lived: without garbage collection, a build takes a quarter less time.
GO_BUILD = GOGC=off GOMEMLIMIT=2GiB $(GO) build
# The linter's cache records the paths of files, so each checkout and module has its own; tools/golangci-lint/run.sh shares one.
export GOLANGCI_LINT_CACHE := $(CURDIR)/bin/golangci-lint-cache

GO ?= go
# VERSION is the version that captctl reports. Without it, captctl reports the commit.
VERSION ?=
LINK_FLAGS := -s -w $(if $(VERSION),-X github.com/capt-provider/capt/cmd/captctl/cli.release=$(VERSION) -X github.com/prometheus/common/version.Version=$(VERSION))

# Packages below test/ start servers and often wait for them, so four at a time keep two cores busy. Test binaries without symbol tables are
# linked faster, and make lint includes go vet.
TEST_FLAGS := -count=1 -vet=off -ldflags="-s -w"
# Unit tests depend on nothing outside the module, so go test reuses results of packages (and of the files that their tests read) that are unchanged.
# With -short, tests with many random or similar cases run a part of them; make test-slow runs all.
UNIT_FLAGS ?= -short -vet=off -ldflags="-s -w" -timeout 25m
SERVER_FLAGS ?= $(TEST_FLAGS) -timeout 25m -p 4
# BUILT tells sandboxes of tests that their programs need no go build, because sandbox-binaries was made before.
BUILT := CAPT_BINARIES_UP_TO_DATE=true
# SHARED are the control planes that packages share. A package that is tested alone (go test ./test/deletion) starts its own.
SHARED := full,exclusive
# LONGEST packages start first, so that none of them runs alone at the end. Go prints results in the order of packages, so the first ones are late.
LONGEST := ./test/e2e ./test/migrate ./test/deletion ./test/faults ./test/migrate/units ./test/hostile
# RESULTS prints the results of packages that have tests.
RESULTS = grep --line-buffered -vE '\[no test files\]|^ok .*\[no tests to run\]|^PASS$$'
FUZZ_TIME ?= 30s

# Servers of tests collect garbage less often, because CPU is scarcer than memory. Benchmarks use the default.
test-unit test-servers test-slow chaos: export GOGC := 400

# Pinned tools. Each has its own module below tools/. Its version is part of the path, so that a new version is always built.
version_of = $(shell awk '$$1 == "$(2)" {print $$2} $$1 == "require" && $$2 == "$(2)" {print $$3}' tools/$(1)/go.mod)
tool = bin/$(1)-$(call version_of,$(1),$(2))/$(1)
CONTROLLER_GEN := $(call tool,controller-gen,sigs.k8s.io/controller-tools)
CRD_REF_DOCS := $(call tool,crd-ref-docs,github.com/elastic/crd-ref-docs)
KUSTOMIZE := $(call tool,kustomize,sigs.k8s.io/kustomize/kustomize/v5)
ACTIONLINT := $(call tool,actionlint,github.com/rhysd/actionlint)
GOVULNCHECK := $(call tool,govulncheck,golang.org/x/vuln)
# kube-api-linter is built into golangci-lint, so the path has the versions of both.
GOLANGCI_LINT := bin/golangci-lint-$(call version_of,golangci-lint,github.com/golangci/golangci-lint/v2)-kube-api-linter-$(call version_of,golangci-lint,sigs.k8s.io/kube-api-linter)/golangci-lint

##@ Build

.PHONY: build
build: ## Build the manager, captctl, the test provider and the sandbox into bin/.
	@mkdir -p bin
	@$(GO_BUILD) -ldflags "$(LINK_FLAGS)" -o bin/ ./cmd/manager ./cmd/captctl ./test/provider/cmd/provider ./test/sandbox/cmd/sandbox
	@echo "bin/manager, bin/captctl, bin/provider and bin/sandbox are built."

.PHONY: bin/sandbox
bin/sandbox:
	@mkdir -p bin
	@test -e $@ || echo "Building $@. The first time this compiles its dependencies, which takes minutes."
	@$(GO_BUILD) -ldflags "$(LINK_FLAGS)" -o bin/ ./test/sandbox/cmd/sandbox

.PHONY: generate
generate: $(CONTROLLER_GEN) $(CRD_REF_DOCS) ## Generate deep copies, CRDs, the ClusterRole, webhook configurations and the references of the API and of captctl from Go.
	@$(CONTROLLER_GEN) object:headerFile=tools/boilerplate.go.txt paths=./api/...
	@$(CONTROLLER_GEN) crd paths="./api/infrastructure/...;./api/controlplane/...;./api/bootstrap/..." output:crd:dir=config/crd/bases
	@$(CONTROLLER_GEN) rbac:roleName=capt-manager-role paths=./controllers/... output:rbac:dir=config/rbac
	@$(CONTROLLER_GEN) webhook paths=./webhooks/... output:webhook:dir=config/webhook
	@$(CRD_REF_DOCS) --log-level=ERROR --source-path=api --config=tools/crd-ref-docs/config.yaml --templates-dir=tools/crd-ref-docs/templates \
	  --renderer=markdown --output-path=docs/api.md
	@$(GO) run ./tools/reference .

.PHONY: format
format: $(GOLANGCI_LINT) ## Format the Go code and sort its imports.
	@$(GOLANGCI_LINT) fmt

##@ Check

.PHONY: test
test: sandbox-binaries verify-generated lint test-unit test-servers ## Run everything that a change must pass.
	@echo "make test: everything passed."

.PHONY: verify-generated
verify-generated: ## Check that generated files are up to date.
	@echo "== generated files"
	@files() { find api -name 'zz_generated.*.go'; find config/crd/bases config/rbac config/webhook -name '*.yaml'; ls docs/api.md docs/captctl.md docs/captctl-output.md docs/reasons.md; }; \
	sums() { files | sort | xargs cksum; }; \
	before=$$(sums); \
	$(MAKE) --no-print-directory generate; \
	if ! diff <(echo "$$before") <(sums); then \
	  echo "Generated files were out of date and have been updated. Review and commit them." >&2; exit 1; \
	fi

.PHONY: lint
lint: $(GOLANGCI_LINT) $(ACTIONLINT) ## Run the linters, and check formatting, go.mod, workflows and terms.
	@echo "== golangci-lint"
	@tools/golangci-lint/run.sh $(GOLANGCI_LINT) run ./...
	@echo "== gofmt"
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "Not formatted (run make format):" >&2; echo "$$unformatted" >&2; exit 1; fi
	@echo "== go mod tidy"
	@$(GO) mod tidy -diff
	@echo "== workflows"
	@$(ACTIONLINT) -shellcheck= -pyflakes= .github/workflows/*.yml # Without programs that only some machines have.
	@echo "== terms"
	@$(GO) run ./tools/terms

.PHONY: vulnerabilities
vulnerabilities: $(GOVULNCHECK) ## Check the manager and captctl for known vulnerabilities (https://vuln.go.dev; GOVULNDB is another database).
	@$(GOVULNCHECK) $(if $(GOVULNDB),-db $(GOVULNDB)) ./cmd/manager ./cmd/captctl

.PHONY: terms
terms: ## List words that tools/terms/terms.txt replaces. TERMS=-count counts them per directory.
	@$(GO) run ./tools/terms $(TERMS)

.PHONY: test-unit
test-unit: ## Run the tests that start no servers.
	@echo "== unit tests"
	@$(GO) test $(UNIT_FLAGS) $$($(GO) list ./... | grep -v /capt/test/) | $(RESULTS)

# "make test" leaves out SLOW packages and SLOW_TESTS, and runs a part of the combinations of SAMPLED packages (fixture.Sample). "make test-slow"
# runs all of them. A slow test covers combinations or long chains of what other tests cover one by one, or a tool of the tests.
SLOW := captctl|crash|gitops|installers|migrate/(crash|reapply)|drills|provider/(cmd|conformance|executor/tofu)|roles|rollout/(fleet|neverempty)|sandbox/cmd/sandbox|stress|upgrade
SAMPLED := defects|deletion|fargate|faults
SLOW_TESTS := \
  TestAClusterMovesWhileARolloutWaits \
  TestAClusterOfAClusterClassWaitsForApprovalsAndStaysProtected \
  TestAFargateProfileAndAMachinePoolMoveWithTheirCluster \
  TestAMoveDuringAPreviewFailsAndIsStartedAgain \
  TestAMoveThatBrokeOffBeforeItDeletedIsStartedAgain \
  TestAMoveWaitsForTerraformAndGoesOn \
  TestAMoveWithoutWorkspacesIsNotPossible \
  TestANewClusterThatCannotWorkIsFailedUntilItIsCorrected \
  TestAPreviewEndsWithWhatItIsAbout \
  TestAPreviewIsNotTakenForAWorkspace \
  TestAProtectedClusterMovesAndStaysProtected \
  TestAProviderThatDoesNotReportIsExplained \
  TestARollbackRestoresEveryObject \
  TestAUnitIsAdoptedOnlyOnAnEmptyPlan \
  TestAnAPIServerThatDoesNotAnswerIsReported \
  TestAvailableClustersCauseNoRequests \
  TestBeforeAdoptionTheManagerWritesOnlyConditions \
  TestCaptctlIsKilledAtEveryWrite \
  TestCertManagerRenewsCertificatesUnderTraffic \
  TestCertificateRotationUnderTraffic \
  TestClusterOfAClusterClass \
  TestClusterWideWorkspacesAreMovedByHand \
  TestClustersThatDriftedFromTheirTemplateArePinned \
  TestCrashIsReportedWithItsLogAndCanBeRestarted \
  TestEveryStallExplainsItself \
  TestKilledRunsSayWhatHappensNext \
  TestPortsTakenByOthersAreAvoided \
  TestPreviewsReportNoSecrets \
  TestProfilesGoFirstInAForegroundDeletionToo \
  TestProfilesGoFirstWithAnOrphaningDeletionToo \
  TestReadOnlyCommandsWriteNothing \
  TestReaperCleansUpAfterAKilledOwner \
  TestReplicasAreReplacedUnderTraffic \
  TestReplicasStartWithoutAConversionWebhook \
  TestStallsOfOutputsAndRunsExplainThemselves \
  TestStoppedSandboxLeavesNoProcessAndNoDirectory \
  TestTheRealFleetNeedsNoDecision \
  TestWhatBelongsToNoClusterMovesToo \
  TestWhatWasDecidedIsAdopted

# Coverage of product code by all tests of a run together, per package. Programs that tests start are counted too, unless they are killed.
PRODUCT := api webhooks controllers migrate cmd
comma := ,
empty :=
space := $(empty) $(empty)
cover = rm -rf bin/cover-$(1); mkdir -p bin/cover-$(1); \
  GOFLAGS="$$GOFLAGS -cover -coverpkg=$(subst $(space),$(comma),$(PRODUCT:%=github.com/capt-provider/capt/%/...))" \
  $(GO) test $(2) -exec "env GOCOVERDIR=$(CURDIR)/bin/cover-$(1)" $$($(GO) list ./... | $(3)) -args -test.gocoverdir=$(CURDIR)/bin/cover-$(1) | $(RESULTS) | grep -v 'coverage: 0.0%' | cut -f 1-3; \
  $(GO) tool covdata percent -i=bin/cover-$(1); \
  $(GO) tool covdata textfmt -i=bin/cover-$(1) -o=bin/cover-$(1)/profile.txt; $(GO) tool cover -func=bin/cover-$(1)/profile.txt | tail -n 1

.PHONY: cover
cover: ## Print the coverage of product code by the unit tests, per package.
	@$(call cover,unit,$(filter-out -short,$(UNIT_FLAGS)) -count=1,grep -v /capt/test/)

.PHONY: cover-integration
cover-integration: sandbox-binaries ## Print the coverage of product code by the tests on servers; COVER=<regular expression> chooses packages.
	@$(call cover,integration,$(SERVER_FLAGS),grep -E '/capt/test/($(or $(COVER),.))' | grep -vE '/test/(bench|browser)')

.PHONY: test-servers
test-servers: sandbox-binaries ## Run the tests on real API servers, and those of whole clusters with Cluster API and Terraform.
	@echo "== tests on servers (the first results take several minutes)"
	@$(BUILT) bin/sandbox with $(SHARED) -- $(GO) test $(SERVER_FLAGS) -skip '^($(subst $(space),|,$(strip $(SLOW_TESTS))))$$' $$($(GO) list $(LONGEST) ./test/... | grep -vE '/test/(bench|browser|$(SLOW))(/|$$)') | $(RESULTS)

.PHONY: test-long
test-long: ## Run every fuzz target for FUZZ_TIME (default 30s).
	@for folder in $$(grep -rl --include='*_test.go' --exclude-dir=bin '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
	  for target in $$($(GO) test -list '^Fuzz' $$folder | awk '/^Fuzz/'); do \
	    echo "== $$folder $$target, $(FUZZ_TIME)"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzzminimizetime 10x -fuzztime $(FUZZ_TIME) $$folder; \
	  done; \
	done

.PHONY: test-browser
test-browser: ## Open the page of captctl report in Chromium, which must be installed; SCREENSHOTS=<directory> keeps pictures.
	@$(GO) test $(TEST_FLAGS) -v ./test/browser

.PHONY: test-slow
test-slow: sandbox-binaries test-tools ## Run the tests and the combinations that are too slow for "make test".
	@$(GO) test $(filter-out -short,$(UNIT_FLAGS)) $$(grep -rl --include='*_test.go' --exclude-dir=bin 'testing\.Short()' . | xargs -n 1 dirname | sort -u) | $(RESULTS)
	@$(BUILT) CAPT_COMBINATIONS=all $(GO) test $(SERVER_FLAGS) $$($(GO) list ./test/... | grep -E '/test/($(SLOW)|$(SAMPLED))(/|$$)') | $(RESULTS)
	@$(BUILT) $(GO) test $(SERVER_FLAGS) -run '^($(subst $(space),|,$(strip $(SLOW_TESTS))))$$' ./test/adopt ./test/e2e ./test/fargate ./test/migrate/... ./test/move ./test/recovery ./test/rollout ./test/sandbox ./test/tenancy ./test/webhooks | $(RESULTS)
	@$(BUILT) CAPT_COMBINATIONS=all $(GO) test $(SERVER_FLAGS) -run '^TestWholeFleet' ./test/migrate | $(RESULTS)
	@$(BUILT) CAPT_COMBINATIONS=all $(GO) test $(TEST_FLAGS) -timeout 60m ./test/hostile | $(RESULTS)

# tools/release and tools/rules have modules of their own, with Helm and with Prometheus, which take minutes to compile.
.PHONY: test-tools
test-tools: $(GOLANGCI_LINT) ## Check the tool that makes releases, and the alerts with the rules engine of Prometheus.
	@for tool in tools/release tools/rules; do \
	  echo "== $$tool"; (cd $$tool && $(CURDIR)/$(GOLANGCI_LINT) run ./... && $(GO) mod tidy -diff && $(GO) test $(UNIT_FLAGS) ./...); \
	done

.PHONY: chaos
chaos: sandbox-binaries ## Kill captctl at every single API call of a migration (make test-slow: at each kind of call).
	@$(GO) test $(TEST_FLAGS) -c -o bin/crash.test ./test/migrate/crash
	@cd test/migrate/crash; printf '%s\n' 1/2 2/2 | $(BUILT) xargs -P 2 -I{} env CAPT_CRASH={} $(CURDIR)/bin/crash.test -test.v -test.timeout 100m

.PHONY: bench
bench: sandbox-binaries ## Run the benchmarks that match BENCH=<regular expression> (default: all).
	@$(GO) test -run '^$$' -bench '$(or $(BENCH),.)' -benchmem -timeout 150m -p 1 $$(grep -rl --include='*_test.go' --exclude-dir=bin '^func Benchmark' . | xargs -n 1 dirname | sort -u) | $(RESULTS)

SCHEDULES ?= 100000

.PHONY: simulate
simulate: ## Run SCHEDULES (default 100000) schedules in the simulated world, in two processes, from SEED (default 1). Without SCHEDULES, SEED and EVENTS of a failure replay one.
	@$(GO) test $(TEST_FLAGS) -c -o bin/simulation.test ./test/simulation
ifeq ($(origin SCHEDULES)$(if $(SEED),,-),file)
	@cd test/simulation; SEED='$(SEED)' EVENTS='$(EVENTS)' $(CURDIR)/bin/simulation.test -test.v -test.run TestNoScheduleBreaksAnInvariant
else
	@cd test/simulation; half=$$(($(SCHEDULES) / 2)); seed=$(or $(SEED),1); printf '%s\n' $$seed $$((seed + half)) | \
	  xargs -P 2 -I{} env SEED={} SCHEDULES=$$half $(CURDIR)/bin/simulation.test -test.v -test.timeout 24h -test.run TestNoScheduleBreaksAnInvariant
endif

.PHONY: simulate-defects
simulate-defects: ## Plant each defect of test/simulation/defects.yaml, or those that DEFECTS matches, and show after how many schedules it is found.
	@DEFECTS='$(or $(DEFECTS),all)' $(GO) test $(TEST_FLAGS) -timeout 24h -v -run TestEachPlantedDefectIsFound ./test/simulation

##@ Try

.PHONY: quickstart
quickstart: bin/sandbox ## Start a management cluster on this machine and create a cluster in it.
	@test/sandbox/quickstart.sh

.PHONY: quickstart-down
quickstart-down: bin/sandbox ## Destroy all clusters of the quickstart through Terraform and remove the sandbox.
	@test/sandbox/quickstart.sh down

.PHONY: sandbox-up
sandbox-up: bin/sandbox ## Start a management cluster on this machine and leave it running.
	@bin/sandbox up

.PHONY: sandbox-down
sandbox-down: bin/sandbox ## Stop and remove the management cluster without destroying clusters through Terraform.
	@bin/sandbox down

##@ Tools

.PHONY: sandbox-binaries
sandbox-binaries: bin/sandbox ## Build the programs of the sandbox that are missing; the first time takes minutes.
	@bin/sandbox build

.PHONY: tools
tools: $(CONTROLLER_GEN) $(CRD_REF_DOCS) $(KUSTOMIZE) $(GOLANGCI_LINT) $(ACTIONLINT) $(GOVULNCHECK) ## Build the pinned tools that are missing.

# build_tool builds to a temporary name first: an existing path means that the tool is complete.
define build_tool
@echo "building $@ (once per version)"
@mkdir -p $(@D)
@$(GO_BUILD) -C tools/$(@F) -ldflags "$(LINK_FLAGS)" -o "$(CURDIR)/$@.part" $(1)
@mv $@.part $@
endef

$(CONTROLLER_GEN):
	$(call build_tool,sigs.k8s.io/controller-tools/cmd/controller-gen)

$(CRD_REF_DOCS):
	$(call build_tool,github.com/elastic/crd-ref-docs)

$(KUSTOMIZE):
	$(call build_tool,sigs.k8s.io/kustomize/kustomize/v5)

$(ACTIONLINT):
	$(call build_tool,github.com/rhysd/actionlint/cmd/actionlint)

$(GOVULNCHECK):
	$(call build_tool,golang.org/x/vuln/cmd/govulncheck)

$(GOLANGCI_LINT):
	$(call build_tool,.)

##@ Release

# IMAGE is the name of the image, without a tag. All files of a release have the time of the commit.
IMAGE ?= capt-manager
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64
release verify-release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null)
release_files = $(GO) run -C tools/release . -version=$(or $(VERSION),v0.4.0-dev) -image=$(IMAGE) -platforms=$(PLATFORMS) -out=$(CURDIR)/out/$(1)

.PHONY: release
release: ## Make the files of a release in out/release. VERSION, IMAGE and PLATFORMS change them.
	@$(call release_files,release)
	@echo "The files of the release are in out/release."

.PHONY: verify-release
verify-release: release ## Make the files of a release twice and compare their checksums.
	@$(call release_files,release-again)
	@diff out/release/checksums.txt out/release-again/checksums.txt
	@echo "Both runs made the same files."

.PHONY: clean
clean: ## Remove CAPT's own binaries and the files of a release. Tools are kept, because building them takes minutes.
	@rm -f bin/manager bin/captctl bin/provider bin/sandbox
	@rm -rf out

.PHONY: clean-all
clean-all: clean ## Remove everything that was built, tools included.
	@rm -rf bin

##@ Help

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
