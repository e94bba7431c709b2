"""The plugin that makes asv's dashboard work without a network (asv_benchmarks/offline_dashboard.py)."""

import re
import sys
from pathlib import Path

import pytest

asv = pytest.importorskip("asv")
BENCHMARKS = Path(__file__).resolve().parent.parent / "asv_benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import offline_dashboard
finally:
    sys.path.remove(str(BENCHMARKS))

PAGE = """
<script src="https://code.jquery.com/jquery-3.3.1.min.js" integrity="sha256-x" onerror="f()"></script>
<script src="https://cdn.example/ajax/jquery.flot.min.js" integrity="sha512-x" onerror="f()"></script>
<script src="https://cdn.example/new.js" integrity="sha512-x"></script>
<script src="asv.js"></script>
<link rel="stylesheet" href="https://cdn.example/dist/css/bootstrap.min.css" integrity="sha256-x">
<a href="https://github.com/airspeed-velocity/asv/">asv</a>
"""


def test_remote_libraries_become_local():
    available = {"jquery-3.3.1.min.js", "jquery.flot.js", "bootstrap.min.css"}
    page, local, remote = offline_dashboard.localised(PAGE, available)
    assert page.splitlines() == [
        "",
        '<script src="vendor/jquery-3.3.1.min.js" onerror="f()"></script>',
        '<script src="vendor/jquery.flot.js" onerror="f()"></script>',
        '<script src="https://cdn.example/new.js" integrity="sha512-x"></script>',
        '<script src="asv.js"></script>',
        '<link rel="stylesheet" href="vendor/bootstrap.min.css">',
        '<a href="https://github.com/airspeed-velocity/asv/">asv</a>',
    ]
    assert (local, remote) == (["jquery-3.3.1.min.js", "jquery.flot.js", "bootstrap.min.css"], ["new.js"])


def test_the_installed_asv_needs_nothing_that_we_lack():
    page = (Path(asv.__file__).parent / "www" / "index.html").read_text()
    page, local, remote = offline_dashboard.localised(page, {path.name for path in offline_dashboard.VENDOR.iterdir()})
    assert local
    assert not remote
    assert not re.search(r'<(script|link)[^>]*"https:', page)
