#!/usr/bin/env bash
# Runs the tests of the CPU's kernels under AddressSanitizer, and those of what cuts their work under Miri where a nightly
# toolchain with Miri is installed. Neither is part of `.ci/run`: the first builds the kernels and the engine anew, which
# takes minutes.
#
#     tests/sanitizer.sh            both
#     tests/sanitizer.sh address    AddressSanitizer: reads and writes outside of what was allocated, or after it was freed
#     tests/sanitizer.sh miri       Miri: references that overlap, uninitialised memory, races
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what="${1:-both}"
folder="${CARGO_TARGET_DIR:-$PWD/target}"
host="$(rustc -vV | sed -n 's/^host: //p')"

if [ "$what" = both ] || [ "$what" = address ]; then
    # The sanitizer's runtime comes with the stable toolchain; its option has to be unlocked. With a target of its own, build
    # scripts and macros are built without. Leaks are left to the tests that count memory.
    echo "== AddressSanitizer"
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="detect_leaks=0" CARGO_TARGET_DIR="$folder/sanitizer" \
        cargo test --locked --package plimsoll-engine --no-default-features --target "$host" \
        --config 'profile.dev.package.candle-core.opt-level=0' --config 'profile.dev.package.plimsoll-kernels.opt-level=1' \
        --test numerics -- kernels:: layers::
fi

if [ "$what" = both ] || [ "$what" = miri ]; then
    if cargo +nightly miri --version >/dev/null 2>&1; then
        # What rayon does with pointers needs permission, and its threads outlive the tests.
        echo "== Miri"
        MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation -Zmiri-tree-borrows" \
            RAYON_NUM_THREADS=2 CARGO_TARGET_DIR="$folder/miri" \
            cargo +nightly miri test --locked --package plimsoll-kernels --no-default-features --lib -- \
            backend::cpu::parallel backend::cpu::matrix backend::cpu::scratch
    elif [ "$what" = miri ]; then
        echo "no nightly toolchain with Miri: rustup toolchain install nightly --component miri" >&2
        exit 1
    else
        echo "no nightly toolchain with Miri: skipped"
    fi
fi
