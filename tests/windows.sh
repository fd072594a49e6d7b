#!/usr/bin/env bash
# The program for Windows, built here and run by Wine: presets verified, losses compared with those of this system, and tests.
# It is not part of `.ci/run`: the build takes six minutes on two cores, and the tests a quarter of an hour.
#
#     tests/windows.sh             the program: its presets verified, and one trained as here
#     tests/windows.sh tests       the tests of kernels and engine
#     tests/windows.sh PROGRAM...  a program of this build, by its words: tests/windows.sh plan cnn-digits
#
# Wine is not Windows: it shows that the system's calls are the right ones, and not what Windows answers. It needs MinGW and
# Wine; where apt-get and the rights to use it are there, they are installed. CARGO_TARGET_DIR is a folder of its own
# (target/windows), and Wine's own folder lies in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=x86_64-pc-windows-gnu
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target/windows}"
export WINEPREFIX="$CARGO_TARGET_DIR/wine" WINEDEBUG="${WINEDEBUG:--all}"

if ! command -v wine >/dev/null || ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        apt-get update
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends wine wine64 gcc-mingw-w64-x86-64
    else
        echo "wine or x86_64-w64-mingw32-gcc was not found: install Wine and MinGW-w64" >&2
        exit 1
    fi
fi
rustup target add "$target"

# Wine before 9 has no library of the name that Rust takes random numbers from. Its one function is another library's.
random="$CARGO_TARGET_DIR/random"
if [ ! -e "$random/bcryptprimitives.dll" ]; then
    mkdir -p "$random"
    x86_64-w64-mingw32-gcc -shared -o "$random/bcryptprimitives.dll" -x c - -x none -ladvapi32 <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) { return SystemFunction036(bytes, (ULONG)count); }
C
    wine wineboot --init >/dev/null 2>&1
    wine winecfg -v win10 >/dev/null 2>&1
fi
WINEPATH="$(wine winepath -w "$random" 2>/dev/null | tr -d '\r')"
export WINEPATH

if [ "${1:-}" = tests ]; then
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine \
        cargo test --locked --target "$target" --package plimsoll-kernels --package plimsoll-engine --lib --no-fail-fast
    exit
fi

cargo build --release --locked --package plimsoll --target "$target"
program=(wine "$CARGO_TARGET_DIR/$target/release/plimsoll.exe")
if [ "$#" -gt 0 ]; then
    exec "${program[@]}" "$@"
fi

"${program[@]}" selftest --quick | tail -n 1
"${program[@]}" verify | grep -E 'right|WRONG'
losses() { grep -oE '"(train_loss|test_accuracy)":[^,}]*' | tail -n 2; }
train=(train mlp-digits --json --keep nothing --set run.steps=40)
there=$("${program[@]}" "${train[@]}" | losses)
here=$(env -u CARGO_TARGET_DIR cargo run --quiet --release --locked --package plimsoll -- "${train[@]}" | losses)
if [ "$there" != "$here" ]; then
    printf 'losses differ\n%s\nand here\n%s\n' "$there" "$here" >&2
    exit 1
fi
printf 'the same losses as on this system:\n%s\n' "$here"
