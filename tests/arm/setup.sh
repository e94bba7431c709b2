#!/bin/bash
# Puts into the folder ARM what runs Python for 64-bit ARM under QEMU: Debian's Python 3.11, and the wheels of the
# versions that are installed here, where `python` must be 3.11 as well. Two minutes, 600 MB. Needs Debian's packages
# qemu-user-static and debootstrap. Debian's packages are unpacked, not installed; debootstrap wants to be root for it.
set -euo pipefail
: "${ARM:?set ARM to a folder outside of the checkout}"
python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "python must be 3.11, as Debian bookworm has it")'
mkdir -p "$ARM"

if [ ! -x "$ARM/root/usr/bin/python3.11" ]; then
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,libgomp1,libstdc++6 bookworm "$ARM/root"
    for package in "$ARM"/root/var/cache/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$ARM/root"
    done
fi

of_this_version() { # those of the packages named that are installed here, as pip takes them
    python -m pip freeze --all | grep -iE "^($(IFS='|'; echo "$*"))=="
}
rm -rf "$ARM/wheels" "$ARM/site"
platforms=()
for version in 2014 _2_17 _2_26 _2_27 _2_28; do
    platforms+=(--platform "manylinux${version}_aarch64")
done
python -m pip download -q --no-deps --only-binary=:all: -d "$ARM/wheels" "${platforms[@]}" --python-version 3.11 \
    --implementation cp --abi cp311 --abi abi3 --abi none \
    $(of_this_version numba llvmlite numpy ml_dtypes hypothesis pytest pluggy iniconfig packaging sortedcontainers pygments)
for wheel in "$ARM"/wheels/*.whl; do
    python -m zipfile -e "$wheel" "$ARM/site"
done
"$(dirname "$0")/python" -c 'import platform, numba; print(platform.machine(), "numba", numba.__version__)'
