#!/usr/bin/env bash
# Builds llama.cpp natively for comparisons: bench/peers/build_llama_cpp.sh DEST [JOBS]
# Leaves DEST/bin/{llama-bench,llama-completion,llama-tokenize}. Takes 15-40 minutes on two cores.
# Needs: python3 with pip, cmake, ninja, g++. The source is the llama.cpp tree that the PyPI sdist
# of llama-cpp-python carries (llama.cpp 0.5.0-dev, commit 0c1e570); nothing else of it is used.
set -euo pipefail

readonly kVersion=0.3.36
readonly kSha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

if [[ $# -lt 1 ]]; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
fi
mkdir -p "$1"
dest=$(cd "$1" && pwd)
jobs=${2:-$(nproc)}
sdist=$dest/dl/llama_cpp_python-$kVersion.tar.gz

if [[ ! -f $sdist ]]; then
  echo "fetching the sdist of llama-cpp-python $kVersion (77 MB)"
  python3 -m pip download --quiet --no-deps --no-binary :all: -d "$dest/dl" \
    "llama-cpp-python==$kVersion"
fi
if ! echo "$kSha256  $sdist" | sha256sum --check --quiet; then
  echo "build_llama_cpp: $sdist is not the pinned file; delete it and run this again" >&2
  exit 1
fi

src=$dest/src
if [[ ! -f $src/CMakeLists.txt ]]; then
  mkdir -p "$src"
  tar xzf "$sdist" -C "$src" --strip-components=3 \
    "llama_cpp_python-$kVersion/vendor/llama.cpp"
fi

launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
# LLAMA_CURL and LLAMA_OPENSSL off: the comparison downloads nothing.
cmake -S "$src" -B "$dest/build" -G Ninja "${launcher[@]}" \
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
  -DGGML_NATIVE=ON -DGGML_OPENMP=ON -DGGML_CCACHE=OFF \
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
  -DLLAMA_BUILD_TOOLS=ON
ninja -C "$dest/build" -j "$jobs" llama-tokenize llama-bench llama-completion

mkdir -p "$dest/bin"
cp "$dest/build/bin/"llama-{tokenize,bench,completion} "$dest/bin/"
"$dest/bin/llama-bench" --version 2>/dev/null || true
ls -l "$dest/bin"
