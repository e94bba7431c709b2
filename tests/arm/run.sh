#!/bin/bash
# Runs tests as on 64-bit ARM, with what setup.sh has put into the folder ARM:
#
#     ARM=... tests/arm/run.sh [arguments for pytest]
#
# QEMU runs LLVM seven times slower than the machine itself does. So the same tests run twice: natively, where they only
# compile for ARM into a disk cache, and then by an emulated Python that reads that cache. The exit status is 0 if all
# kernels compiled natively and the emulated tests passed. NUMBA_CPU_NAME chooses the processor, such as neoverse-v1.
set -euo pipefail
: "${ARM:?set ARM to the folder that setup.sh has filled}"
cd "$(dirname "$0")/../.."
export NUMBA_CPU_NAME=${NUMBA_CPU_NAME:-generic} NUMBA_CPU_FEATURES=${NUMBA_CPU_FEATURES:-} NUMBA_NUM_THREADS=2
export NUMBA_CACHE_DIR=$ARM/cache HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-ci} PYTHONPATH=$PWD:$PWD/tests/arm

chosen=(-q -p plugin -p no:cacheprovider "$@")
if [[ $* != *.py* ]]; then # what pools; the others take processes apart, or look at examples and documents
    for name in adaptive avg blocks channel_axis fractional global kernels layers lp max minimum narrow packs \
        properties sections spread spread_choice unpool; do
        chosen+=("tests/test_$name.py")
    done
fi

echo "1. compile natively: whether tests pass says nothing here"
# malloc hands out zeros: results that no kernel has written lead on to the next call, garbage does not
MALLOC_PERTURB_=255 PYTHONPYCACHEPREFIX=$ARM/bytecode \
    python -W ignore -m pytest --assert=plain -W ignore --tb=no --disable-warnings -r N "${chosen[@]}"
echo "2. run under QEMU"
tests/arm/python -m pytest "${chosen[@]}"
