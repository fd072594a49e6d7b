#!/usr/bin/env bash
# Builds and links the engine on candle's own CUDA device (the feature `candle-cuda`), and runs its tests on the simulated GPU.
# No GPU and no driver is needed. It is not part of `.ci/run`: the first time it fetches 1 GB (2 GB on the disk) and compiles
# candle's kernels, which is nine of fifteen minutes on two cores; after that, only what changed.
#
#     tests/candle-cuda.sh           all: the default build has nothing of a toolkit; lints, build, link, tests
#     tests/candle-cuda.sh build     without the lints and the tests
#     tests/candle-cuda.sh toolkit   prints what a shell needs for builds of its own:
#                                    eval "$(tests/candle-cuda.sh toolkit)" && cargo build --release --features candle-cuda
#
# The toolkit is that of CUDA_HOME or CUDA_PATH: CUDA 13, with cuDNN 9 among its libraries. Without either, one is put together
# of Python packages in PLIMSOLL_CUDA_CACHE (~/.cache/plimsoll/cuda-13.0), once. CUDA_COMPUTE_CAP is the card that candle's
# kernels are compiled for (80: later cards compile them further when they load them). CARGO_TARGET_DIR is a folder of its own
# (target/candle-cuda), because cudarc is built otherwise here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what="${1:-all}"
case "$what" in all | build | toolkit) ;; *) sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;; esac

# A toolkit of Python packages: compiler, headers, libraries, and a stand-in for the driver's library with the driver's names,
# so that the linker records the real one.
make_toolkit() {
    local root="$1" toolkit="$1/cuda" site
    rm -rf "$root"
    mkdir -p "$root"
    python3 -m venv "$root/venv"
    "$root/venv/bin/pip" install --quiet 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' \
        'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cublas>=13.0,<13.2' \
        'nvidia-curand==10.4.0.*' 'nvidia-cudnn-cu13==9.*'
    site=$("$root/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
    cp -r "$site/nvidia/cu13" "$toolkit"
    cp -r "$site/nvidia/cudnn/include/." "$toolkit/include/"
    cp -P "$site"/nvidia/cudnn/lib/* "$toolkit/lib/"
    rm -rf "$root/venv"
    ln -sfn lib "$toolkit/lib64"
    (
        cd "$toolkit/lib"
        for file in *.so.*; do [ -e "${file%%.so.*}.so" ] || ln -s "$file" "${file%%.so.*}.so"; done
    )
    mkdir -p "$toolkit/lib/stubs"
    stand_in libcuda.so.1 "$toolkit/lib/stubs/libcuda.so" < <(grep -ohE '\bcu[A-Z][A-Za-z0-9]*(_v[0-9]+)?(_ptsz|_ptds)?\b' "$toolkit/include/cuda.h")
    touch "$root/ready"
}

# A library called $1 in the file $2, with the functions whose names it reads. All answer "not supported" (801); those of
# cuRAND, which candle's device starts, say yes and make nothing.
stand_in() {
    sort -u | sed -E 's/^(curand.*)$/int \1(void) { return 0; }/; t; s/.*/int &(void) { return 801; }/' |
        gcc -w -shared -fPIC -x c - -Wl,-soname,"$1" -o "$2"
}

toolkit="${CUDA_HOME:-${CUDA_PATH:-}}"
if [ -z "$toolkit" ]; then
    cache="${PLIMSOLL_CUDA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/cuda-13.0}"
    [ -e "$cache/ready" ] || make_toolkit "$cache" >&2
    toolkit="$cache/cuda"
fi
if [ ! -x "$toolkit/bin/nvcc" ]; then
    echo "$toolkit has no bin/nvcc: name a toolkit in CUDA_HOME, or none and one is made" >&2
    exit 1
fi
export CUDA_HOME="$toolkit" CUDA_PATH="$toolkit" CUDA_COMPUTE_CAP="${CUDA_COMPUTE_CAP:-80}" PATH="$toolkit/bin:$PATH"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target/candle-cuda}"
if [ "$what" = toolkit ]; then
    for name in CUDA_HOME CUDA_PATH CUDA_COMPUTE_CAP PATH CARGO_TARGET_DIR; do printf 'export %s=%q\n' "$name" "${!name}"; done
    exit
fi

echo "== The default build has nothing of a toolkit"
if cargo tree --locked --workspace --prefix none | grep -E '^(candle-kernels|cudaforge) '; then
    echo "the default build compiles kernels with a toolkit" >&2
    exit 1
fi
if cargo tree --locked --workspace --prefix none --edges features --invert cudarc | grep -E 'feature "(dynamic|static)-linking"'; then
    echo "the default build is linked to NVIDIA's libraries" >&2
    exit 1
fi

packages=(--locked --package plimsoll-kernels --package plimsoll-engine --package plimsoll-tests --features candle-cuda)
if [ "$what" = all ]; then
    echo "== Lints"
    cargo clippy "${packages[@]}" --lib --test candle_cuda --test gpu_faults -- -D warnings
fi

echo "== Build and link"
built=$(cargo test "${packages[@]}" --test candle_cuda --test gpu_faults --no-run --message-format=json-render-diagnostics)
programs=$(sed -nE 's/.*"executable":"([^"]*)".*/\1/p' <<<"$built")
for program in $programs; do
    echo "$program"
    readelf -d "$program" | sed -nE 's/.*NEEDED.*\[(lib(cu|nvrtc)[^]]*)\]/    needs \1/p'
    if ! readelf -d "$program" | grep -q 'libcuda\.so\.1'; then
        echo "$program is not linked to the driver" >&2
        exit 1
    fi
done
[ "$what" = all ] || exit 0

# Every function that a program is linked to has to be somewhere when it starts. What the simulated GPU does not have is said
# not to be supported.
echo "== Tests on the simulated GPU"
place="$CARGO_TARGET_DIR/stand-in"
mkdir -p "$place"
grep -hE '^API ' tests/simulator/*.cpp | grep -oE '\b(cu[A-Z]|cublas|cudnn|nvrtc)[A-Za-z0-9_]*\(' | tr -d '(' | sort -u >"$place/simulated"
for program in $programs; do
    nm -D --undefined-only "$program" | sed -E 's/.* U //; s/@.*//' | grep -E '^(cu[A-Z]|cublas|curand|cudnn|nvrtc)' |
        sort -u | comm -23 - "$place/simulated" >"$place/missing"
    stand_in libmissing.so "$place/libmissing.so" <"$place/missing"
    ln -sf "$toolkit/lib/stubs/libcuda.so" "$place/libcuda.so.1"
    LD_LIBRARY_PATH="$place:$toolkit/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" LD_PRELOAD="$place/libmissing.so" "$program"
done
