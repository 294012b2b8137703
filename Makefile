# Klamm. `make` lists the targets.
SHELL := /bin/bash
GO    ?= go
BIN   := bin/klamm

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/klamm-mq/klamm/broker.Version=$(VERSION)

# The race detector needs a C compiler; without one the same tests run without it.
RACE := $(shell command -v cc >/dev/null 2>&1 && echo -race)

# Once in some hundred runs the detector itself gives up, which says nothing of what it
# watched: then what has not passed yet is run again.
RACED = $(GO) test $(RACE) -timeout 10m $$($(GO) list ./... | grep -v '/broker/conformance$$')
DETECTOR_FAILED = grep -q 'ThreadSanitizer: CHECK failed'

# Sizes of the longer proofs; each prints its seed.
SEEDS ?= 5000
FIRST ?= 1
TIME  ?= 30s
KILLS ?= 100

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/klamm, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/klamm

.PHONY: run
run: build ## run a broker on 127.0.0.1:9092 with its data in ./klamm-data
	./$(BIN) start

.PHONY: cluster
cluster: build ## run three brokers on 127.0.0.1:19092-19094 with their data in ./klamm-data/cluster, until Ctrl-C
	@pids=; trap 'kill $$pids 2>/dev/null; wait' EXIT; trap 'exit 0' INT TERM; for i in 1 2 3; do \
		./$(BIN) start --config deploy/cluster/local.properties --set node.id=$$i \
			--set "listeners=PLAINTEXT://127.0.0.1:$$((19091 + i)),CONTROLLER://127.0.0.1:$$((19191 + i))" \
			--set admin.listener=127.0.0.1:$$((19291 + i)) --set log.dirs=klamm-data/cluster/$$i & \
		pids="$$pids $$!"; \
	done; wait

.PHONY: test
test: ## every test that needs only Go, in a few minutes
	@log=$$(mktemp); trap 'rm -f $$log' EXIT; set -o pipefail; $(RACED) | tee $$log || { $(DETECTOR_FAILED) $$log && $(RACED); }
	$(GO) test -timeout 10m ./broker/conformance # twenty thousand answers, which take four times as long under -race
	$(GO) test -tags synctests -timeout 10m -run 'Group|Clusters|RollingMembers' ./broker/simtest ./broker
	cd compat-tests && $(GO) test -timeout 10m ./harness ./franz ./kfake ./matrix ./tap ./suites/verdict
	cd compat-tests && $(GO) test -timeout 10m -run Matrix ./sarama ./kafkago
	cd compat-tests && $(GO) test -timeout 5m -skip 'Under|Rolling' ./chaos # its judge, its network and its tables
	cd compat-tests && $(GO) test -timeout 10m -run Recorded ./compaction

.PHONY: test-slow
test-slow: ## the tests of `test` with their long settings, and those behind the slow tag
	$(GO) test $(RACE) -tags 'slow invariants' -timeout 60m ./...

.PHONY: check
check: lint arch vet-darwin build-arm64 generate-check test ## everything that must be green before a commit

# The linter is built once; tools/go.mod pins it.
LINTER := bin/golangci-lint
$(LINTER): tools/go.mod tools/go.sum
	$(GO) build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: $(LINTER) ## golangci-lint over both modules, formatting included
	$(LINTER) run ./...
	cd compat-tests && ../$(LINTER) run --config ../.golangci.yml ./...

.PHONY: fmt
fmt: $(LINTER) ## format every Go file
	$(LINTER) fmt ./...
	cd compat-tests && ../$(LINTER) fmt --config ../.golangci.yml ./...

.PHONY: arch
arch: ## who may import whom, and which package lacks its page
	$(GO) test ./internal/archtest

.PHONY: vet-darwin
vet-darwin:
	GOOS=darwin $(GO) vet ./...

# A binary five megabytes larger has let text/template in, or whatever else asks for methods by
# their names: then the linker keeps every method there is.
LARGEST := 36000000

.PHONY: build-arm64
build-arm64: build
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/klamm
	@size=$$(wc -c < $(BIN)); [ $$size -le $(LARGEST) ] || { echo "$(BIN) has $$size bytes, more than $(LARGEST)"; exit 1; }

.PHONY: generate
generate: ## make the generated code again (needs protoc)
	$(GO) generate ./...

.PHONY: generate-check
generate-check:
	@if command -v protoc >/dev/null 2>&1; then $(GO) generate ./... && git diff --exit-code -- '*.pb.go'; \
	else echo "protoc not found: generated code is not compared here"; fi

.PHONY: fuzz
fuzz: ## each fuzz target for TIME (30s)
	@for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$pkg/*_test.go | sed 's/^func //'); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(TIME) $$pkg || exit 1; \
	  done; done

.PHONY: crash
crash: ## kill a broker with SIGKILL, KILLS times for each durability, under load of three client programs (needs kcat)
	@mkdir -p docs/evidence
	cd compat-tests && KILLS=$(KILLS) EVIDENCE=$(CURDIR)/docs/evidence/crash.txt $(GO) test -count=1 -timeout 60m -v ./crash

.PHONY: chaos-one
chaos-one: ## five client libraries write and read for MINUTES (30), SIGKILL each minute (needs a JDK, Maven once, Python, Node.js, kcat)
	@mkdir -p docs/evidence
	cd compat-tests && MINUTES=$(or $(MINUTES),30) EVERY=$(EVERY) EVIDENCE=$(CURDIR)/docs/evidence/chaos.txt \
	  $(GO) test -count=1 -timeout 24h -v -run OneBroker ./chaos

.PHONY: chaos
chaos: ## three brokers under faults of a SEED for MINUTES (10): killed, paused, stopped, cut off, slow, a full disk, damaged files (FAULTS=, CLIENTS= choose; UNSAFE=1 must lose records)
	@mkdir -p docs/evidence
	cd compat-tests && MINUTES=$(or $(MINUTES),10) SEED=$(SEED) FAULTS=$(FAULTS) CLIENTS=$(CLIENTS) KEEP=$(KEEP) \
	  EVIDENCE=$(CURDIR)/docs/evidence/chaos-cluster.txt \
	  $(GO) test -count=1 -timeout 24h -v -run $(if $(UNSAFE),UnsafeSettings,ThreeBrokers) ./chaos

# The oldest commit that this one works together with in one cluster.
FROM ?= 32fbd9ca3858dba9984d4867349049ac035db0ea

.PHONY: upgrade
upgrade: upgrade-from ## three brokers upgraded one after the other from the commit FROM to this one under load, back, and on to a release with a level more of klamm.metadata (CLIENTS= chooses)
	@mkdir -p docs/evidence
	cd compat-tests && FROM=$(FROM) CLIENTS=$(CLIENTS) KEEP=$(KEEP) EVIDENCE=$(CURDIR)/docs/evidence/rolling.txt \
	  $(GO) test -count=1 -timeout 24h -v -run RollingUpgrade ./chaos

# A clone without history gets that commit alone, if its origin gives it.
.PHONY: upgrade-from
upgrade-from:
	@git cat-file -e '$(FROM)^{commit}' 2>/dev/null || \
	{ test "$$(git rev-parse --is-shallow-repository 2>/dev/null)" = true && git fetch -q --depth 1 origin $(FROM); } || \
	{ echo "commit $(FROM), to upgrade from, is not in this copy, and its origin does not give it" >&2; exit 1; }

.PHONY: rolling
rolling: ## three brokers restarted one after the other under load for MINUTES (2); then four, each of which is drained, loses its vote and comes back empty meanwhile (CLIENTS= chooses)
	@mkdir -p docs/evidence
	cd compat-tests && MINUTES=$(MINUTES) CLIENTS=$(CLIENTS) KEEP=$(KEEP) EVIDENCE=$(CURDIR)/docs/evidence/rolling.txt \
	  $(GO) test -count=1 -timeout 24h -v -run 'RollingRestarts|RollingMembers' ./chaos

# Client libraries: each shows what package matrix asks for, and plays the life of a group.
COMPAT        = cd compat-tests && $(GO) test -count=1 -timeout 20m
COMPAT_GO     = ./matrix ./tap ./franz ./sarama ./kafkago ./confluentgo ./kcat
COMPAT_JAVA   = ./javaclient ./javatools
COMPAT_PYTHON = ./python
COMPAT_NODE   = ./node
COMPAT_APPS   = ./streams ./connect ./mirror

.PHONY: compat
compat: compat-tools ## every client library, Kafka Streams, Connect and MirrorMaker (needs a C compiler, kcat, a JDK, Maven, Python with venv, Node.js with npm)
	$(COMPAT) -p 2 $(COMPAT_GO) $(COMPAT_JAVA) $(COMPAT_PYTHON) $(COMPAT_NODE) $(COMPAT_APPS)

.PHONY: compat-tools
compat-tools:
	@missing=; need() { eval "$$1" >/dev/null 2>&1 || { echo "make compat needs $$2" >&2; missing=1; }; }; \
	need 'command -v cc' 'a C compiler (Debian: gcc libc6-dev)'; \
	need 'command -v kcat' 'kcat (Debian: kcat)'; \
	need 'command -v javac' 'a JDK (Debian: default-jdk-headless)'; \
	need 'command -v mvn' 'Maven (Debian: maven)'; \
	need 'python3 -c "import venv, ensurepip"' 'Python with venv (Debian: python3 python3-venv)'; \
	need 'command -v npm' 'Node.js with npm (Debian: nodejs npm)'; \
	test -z "$$missing"

.PHONY: compat-go
compat-go: ## client libraries in Go, and kcat (needs a C compiler and kcat)
	$(COMPAT) -p 2 $(COMPAT_GO)

.PHONY: compat-java
compat-java: ## Kafka's own clients and command-line tools (needs a JDK, kcat, and Maven once)
	$(COMPAT) -p 1 $(COMPAT_JAVA)

.PHONY: compat-streams
compat-streams: ## a word count of Kafka Streams with a state store (needs a JDK, and Maven once)
	$(COMPAT) ./streams

.PHONY: compat-connect
compat-connect: ## workers of Kafka Connect with file connectors, MirrorMaker 2 from and to a real Kafka (needs a JDK, and Maven once)
	$(COMPAT) -p 1 ./connect ./mirror

.PHONY: compat-python
compat-python: ## kafka-python, confluent-kafka and aiokafka (needs Python with venv, and pip once)
	$(COMPAT) $(COMPAT_PYTHON)

.PHONY: compat-node
compat-node: ## KafkaJS and @platformatic/kafka (needs Node.js with npm, and npm once)
	$(COMPAT) $(COMPAT_NODE)

.PHONY: compat-kafka
compat-kafka: compat-tools ## the same against Apache Kafka: are the tests right?
	cd compat-tests && BROKER=kafka $(GO) test -count=1 -timeout 60m -p 1 -run 'Group$$|StaticMembers$$|Matrix$$' $(COMPAT_GO) ./javaclient $(COMPAT_PYTHON) $(COMPAT_NODE)
	cd compat-tests && BROKER=kafka $(GO) test -count=1 -timeout 30m -p 1 -run 'Habits|Outlives|Tools|WordCount|FileToFile' ./javaclient ./javatools ./streams ./connect

# Suites other projects wrote for their own clients, RUNS (1) times; BROKER=kafka runs them
# against Apache Kafka 4.4 (needs Java, and Maven once).
SUITE = cd compat-tests && RUNS=$(or $(RUNS),1) NODES=$(NODES) RF=$(RF) EVIDENCE=$(CURDIR)/docs/evidence/suites.txt $(GO) test -count=1 -timeout 24h -v ./suites -run

.PHONY: suite-kgo
suite-kgo: ## franz-go's own tests, on NODES (1), with topics of RF (1) replicas
	$(SUITE) '^TestKgo$$'

.PHONY: suite-kgo-chaos
suite-kgo-chaos: ## the same over connections that die every second
	$(SUITE) '^TestKgoChaos$$'

.PHONY: suite-kafka-go
suite-kafka-go: ## kafka-go's own tests (need port 9092)
	$(SUITE) '^TestKafkaGo$$'

.PHONY: suite-confluent
suite-confluent: ## confluent-kafka-go's own tests (need a C compiler)
	$(SUITE) '^TestConfluent$$'

.PHONY: suite-sarama
suite-sarama: ## sarama's own functional tests, on five nodes behind toxiproxy (need ports 8474 and 29091-29095, a JDK, and Maven once)
	$(SUITE) '^TestSarama$$'

.PHONY: dumplog
dumplog: ## Kafka's own DumpLogSegments reads every file (needs Java, and Maven once)
	cd compat-tests && $(GO) test -count=1 -timeout 20m ./dumplog

.PHONY: disk
disk: ## fill the disk under a broker (needs root; DISK_FS=ext4 for more than a tmpfs)
	cd compat-tests && $(GO) test -count=1 -timeout 20m -v ./disk

.PHONY: confined
confined: ## brokers in 64 MB, on a read-only root, as another user, in what deploy/Dockerfile makes (needs root, util-linux, systemd-analyze)
	cd compat-tests && $(GO) test -count=1 -timeout 20m -v ./confined

# Where a run of simulations writes down what it has tried. The tag synctests is franz-go's,
# see broker/simtest/groups_test.go.
SIM_ENV = KLAMM_FIRST=$(FIRST) KLAMM_EVIDENCE=$(CURDIR)/docs/evidence/sim.txt KLAMM_COMMIT=$$(git describe --always --dirty --abbrev=12)

.PHONY: oracle
oracle: ## every scenario of conform against Klamm and a running Kafka 4.4, RUNS (1) times (needs Java, and Maven once)
	cd compat-tests && RUNS=$(or $(RUNS),1) $(GO) test -count=1 -timeout 60m -v -run '^TestOracle$$' ./oracle

.PHONY: oracle-record
oracle-record: ## record Kafka's answers again, from a fresh Kafka and once more to be sure
	cd compat-tests && RECORD=$(CURDIR)/conform/transcripts/kafka-4.4 $(GO) test -count=1 -timeout 60m -run '^TestRecord$$' ./oracle

.PHONY: oracle-cluster
oracle-cluster: ## the scenarios of clusters against three nodes of Klamm and of Kafka 4.4, whose processes are killed, stopped and paused (the same)
	cd compat-tests && SCENARIOS='$(SCENARIOS)' EVIDENCE=$(if $(SCENARIOS),,$(CURDIR)/docs/evidence/oracle.txt) \
	  $(GO) test -count=1 -timeout 120m -v -run '^TestClusterOracle$$' ./oracle

.PHONY: oracle-cluster-record
oracle-cluster-record: ## record what three nodes of Kafka answer again, twice to be sure; SCENARIOS=REGEXP renews some
	cd compat-tests && SCENARIOS='$(SCENARIOS)' RECORD=$(CURDIR)/conform/transcripts/kafka-4.4-cluster \
	  $(GO) test -count=1 -timeout 240m -v -run '^TestClusterRecord$$' ./oracle

.PHONY: oracle-generate
oracle-generate: ## random sequences from SEED (1) on, for DURATION (1m), on both brokers
	cd compat-tests && SEED=$(SEED) DURATION=$(DURATION) EVIDENCE=$(CURDIR)/docs/evidence/oracle.txt \
	  $(GO) test -count=1 -timeout 24h -v -run '^TestGenerate$$' ./oracle

.PHONY: oracle-compaction
oracle-compaction: ## what the log cleaner leaves, beside that of a running Kafka 4.4: named histories, and SEEDS (10) random ones from FIRST (1) on (the same)
	cd compat-tests && SEED=$(FIRST) SEEDS=$(if $(filter file,$(origin SEEDS)),10,$(SEEDS)) $(GO) test -count=1 -timeout 24h -v -run '^TestBesideKafka$$' ./compaction

.PHONY: oracle-compaction-record
oracle-compaction-record: ## record again what Kafka's cleaner leaves, from two fresh Kafkas that must agree (the same)
	cd compat-tests && $(GO) test -count=1 -timeout 60m -run '^TestRecord$$' ./compaction
.PHONY: cleaner
cleaner: ## RUNS (1000) random logs compacted by Kafka's own classes and by ours (needs Java, and Maven once)
	cd compat-tests && SEED=$(SEED) RUNS=$(RUNS) $(GO) test -count=1 -timeout 60m -v ./cleaner

.PHONY: exchange
exchange: ## segments of Klamm served by Kafka, and the other way round (needs Java, and Maven once)
	cd compat-tests && $(GO) test -count=1 -timeout 20m ./exchange

.PHONY: sim
sim: ## brokers through crashes and power cuts: SEEDS seeds of the exact tier from FIRST on, a quarter as clusters, a tenth of the real one
	@mkdir -p docs/evidence
	$(SIM_ENV) KLAMM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 60m -v -run Seeds ./broker/simtest/exact
	$(SIM_ENV) KLAMM_SEEDS=$$(( ($(SEEDS) + 3) / 4 )) $(GO) test -count=1 -timeout 60m -v -run 'Seeds$$' ./broker/simtest/exact/cluster
	$(GO) test -count=1 -timeout 60m -v -run '^TestExact$$' ./cluster/coordinator -seeds $(SEEDS) -first $(FIRST)
	$(SIM_ENV) KLAMM_SEEDS=$$(( ($(SEEDS) + 9) / 10 )) $(GO) test -tags synctests -count=1 -timeout 60m -run Seeds ./broker/simtest

.PHONY: sim-repro
sim-repro: ## the real tier with one SEED= alone, printing schedule and history
	KLAMM_SEED=$(SEED) $(GO) test -tags synctests -count=1 -v -run '$(or $(RUN),Seeds)' ./broker/simtest

.PHONY: bench
bench: build ## what klamm promises beside Apache Kafka 4.4, in turns: ROUNDS (5), PART (all of one broker); PART=cluster of three, PART=elections MINUTES=10 (needs Java, and Maven once)
	cd compat-tests && KLAMM_BINARY=$(CURDIR)/$(BIN) ROUNDS=$(ROUNDS) MB=$(MB) WARM_MB=$(WARM_MB) \
	  $(GO) test -count=1 -timeout 60m -run '^$$' -bench '$(if $(filter cluster% elections,$(PART)),ClusterTargets,^BenchmarkTargets$$$$)/$(PART)' -benchtime 1x ./bench

.PHONY: bench-alone
bench-alone: build ## start, idle and load of klamm alone, and of its packages
	cd compat-tests && $(GO) test -count=1 -timeout 30m -run '^$$' -bench . -skip 'BesideKafka|Targets' -benchtime 1x ./bench
	$(GO) test -run '^$$' -bench . -benchmem ./protocol/... ./logstore/... ./cluster/...

.PHONY: bench-kafka
bench-kafka: ## the same loads of franz-go on klamm and on Apache Kafka 4.4, in one run (needs Java, and Maven once)
	cd compat-tests && $(GO) test -count=1 -timeout 30m -run '^$$' -bench BesideKafka -benchtime 1x ./bench

.PHONY: clean
clean: ## remove what the build made
	rm -rf bin
