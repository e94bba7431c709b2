"""A plugin of asv (asv.conf.json names it): `asv publish` writes a dashboard that needs no network."""

import re
import shutil
from pathlib import Path

from asv.console import log
from asv.publishing import OutputPublisher

VENDOR = Path(__file__).resolve().parent / "vendor"
REMOTE = re.compile(
    r'(<(?:script src|link rel="stylesheet" href)=")https://[^"]*/([^"/]+)"[^>]*?(\s*onerror="[^"]*")?>'
)


def localised(page: str, available: set[str]) -> tuple[str, list[str], list[str]]:
    """(the page with local libraries, the files it needs, those that stay remote because we do not have them)."""
    local, remote = [], []

    def replace(tag: re.Match) -> str:
        opening, name, onerror = tag.groups()
        # Flot's minified files are not on npm: the plain ones take their place.
        for candidate in (name, name.replace(".min.", ".")):
            if candidate in available:
                local.append(candidate)
                return f'{opening}vendor/{candidate}"{onerror or ""}>'
        remote.append(name)
        return tag.group()

    return REMOTE.sub(replace, page), local, remote


class OfflineLibraries(OutputPublisher):
    """Copies the libraries next to the pages; asv calls it once the pages are written."""

    @classmethod
    def publish(cls, conf, repo, benchmarks, graphs, revisions):
        html = Path(conf.html_dir)
        index = html / "index.html"
        page, local, remote = localised(index.read_text(), {path.name for path in VENDOR.iterdir()})
        (html / "vendor").mkdir(exist_ok=True)
        for name in local:
            shutil.copy(VENDOR / name, html / "vendor")
        index.write_text(page)
        for name in remote:
            log.warning(f"the dashboard loads {name} from the network: {VENDOR} does not have it")
