# Thin over `cargo xtask`: `make` alone lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup dev demo test check e2e matrix bench image chart generate

# Right after an installation the shell may not know these places yet.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

ifneq ($(or $(MAKECMDGOALS),help),help)
ifeq ($(shell command -v cargo),)
$(error cargo is missing: install Rust with `curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y`)
endif
ifeq ($(shell command -v cc),)
$(error a C compiler is missing: install it with `apt-get install -y build-essential`)
endif
endif

help:  ## list the targets
	@sed -n 's/^\([a-z0-9]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

setup:  ## build or install Kubernetes, Velero and Ceph, once (13 minutes on two cores)
	@cargo xtask setup

demo:  ## the story of one tenant on real Kubernetes, Ceph and Velero (KEEP=1 leaves it running)
	@cargo xtask demo

dev:  ## the same parts with the operator, for you to play with (KUBECONFIG_OUT=file)
	@cargo xtask dev

test:  ## formatting, lints, generated files, set-up and all tests
	@cargo xtask test

e2e:  ## the operator as pods on a real node, with Velero and volumes; as root (CROFT_KUBERNETES=1.33 chooses another version)
	@cargo xtask e2e

matrix:  ## the story of `make e2e` on every Kubernetes version there is a module for; builds each once (6 minutes on two cores)
	@cargo xtask matrix

check:  ## formatting, lints, generated files and dependencies (builds cargo-deny once, 6 minutes on two cores)
	@cargo xtask check

# Not by way of `cargo xtask`, which would be built only to build itself once more.
bench:  ## what the operator costs, and its speed against a bare generator, into target/bench.json
	@cargo run --locked --profile bench-tools --package xtask -- bench

image:  ## the operator's image as target/image/croft.tar, with its bill of materials (10 minutes on two cores)
	@cargo xtask image

chart:  ## the Helm chart against `croft manifests` (builds Helm once, 3 minutes on two cores)
	@cargo xtask chart

generate:  ## write deploy/ and docs/ from the code
	@cargo xtask generate
