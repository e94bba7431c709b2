"""The documentation: `sphinx-build -W -b html docs docs/_build/html`, with what `pip install -e '.[docs]'` brings.

Where a binding's library is missing, mocks stand in for it: docstrings and signatures come out the same.
"""

import contextlib
import importlib.util
import inspect
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from matplotlib.figure import Figure  # noqa: E402
from sphinx.errors import ExtensionError  # noqa: E402
from sphinx.ext.autodoc.mock import mock  # noqa: E402

import numba_pool  # noqa: E402

project = "numba_pool"
copyright = "2026, the numba_pool authors"
version = release = numba_pool.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "pictures", "**sg_execution_times.rst"]
highlight_language = "text"
default_role = "code"  # of single backquotes in docstrings
myst_heading_anchors = 3

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"numba_pool {release}"
html_copy_source = False
html_show_sphinx = False

autodoc_typehints = "none"  # the docstrings say what is taken
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # with it a line for several arguments is read as one argument, of a type of these names

# Only examples that are quick are run: those whose names begin with plot_. The others bring a picture along.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(data|kernels|nn|ome_image|plots)\.py$",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "default_thumb_file": str(HERE.parent / "examples" / "images" / "gradient_routing.png"),
    "remove_config_comments": True,
}


# ---- the API: pages that are written from numba_pool.__all__
FIRST = ("accelerate", "report", "restore", "Report", "decompositions", "coarsen", "pool",
         "max_pool", "min_pool", "avg_pool", "sum_pool", "lp_pool",
         "MaxPool", "MinPool", "AvgPool", "SumPool", "LPPool")  # the others follow by name
RANKED = re.compile(r"(?P<family>\w+?)(?P<rank>[123])d(?P<backward>_backward)?$")
LAYERS = """A layer is a function with its arguments. What an argument means stands with the function of the same name.

`layer(x)` is `layer.forward(x)`. After `layer.train()`, as at first, it keeps what `layer.backward` needs. After
`layer.eval()` it keeps nothing. `layer.parameters()` is empty: pooling has none."""
PAGES = {
    "functions": ("Functions", "A function for one rank stands for all: only the number of spatial axes differs."),
    "layers": ("Layers", LAYERS),
    "blocks": ("Blocks of any array", "The guide: [](../coarsen.md)."),
    "settings": ("Settings and tools", "Threads, compilation, memory, and what else is not pooling."),
}
BLOCKS = {"coarsen", "pyramid", "pyramid_block", "pyramid_regions", "reducers"}
BINDINGS = ("torch", "jax", "autograd", "dask", "xarray")  # modules of numba_pool, and the libraries that they need
GUIDES = {"dask": "clusters.md#dask-arrays", "xarray": "coarsen.md#named-dimensions"}  # others have pages of their own
MODULES = "Subclasses of PyTorch's Modules, with their arguments. Each calls the function of its name.\n"


def page_of(name):
    if isinstance(getattr(numba_pool, name), type) and hasattr(getattr(numba_pool, name), "forward"):
        return "layers"
    if name in BLOCKS:
        return "blocks"
    pools = "_pool" in name.removeprefix("empty_pool") or "_unpool" in name or name.startswith("segment_")
    return "functions" if pools else "settings"


def api_pages():
    """Page: its Markdown."""
    pages = {page: [] for page in PAGES}
    for name in numba_pool.__all__:
        if not isinstance(getattr(numba_pool, name), str):
            pages[page_of(name)].append(name)
    for page, (title, text) in PAGES.items():
        yield page, f"# {title}\n\n{text}\n\n{sections('numba_pool', pages[page])}"
    for module in BINDINGS:
        yield module, binding(module)


def sections(module, names):
    """Of all names of a module, by families."""
    families = {}
    for name in names:
        match = RANKED.match(name)
        families.setdefault(match["family"] if match else name.removesuffix("_backward"), []).append(name)
    return "\n".join(section(module, *item) for item in sorted(families.items(), key=order))


def order(item):
    return (FIRST.index(item[0]) if item[0] in FIRST else len(FIRST)), item[0].lower()


def section(module, family, names):
    lines = [f"## {family}", ""]
    forward = [name for name in names if not name.endswith("_backward")]
    if RANKED.match(names[0]):
        lines += [", ".join(f"`{name}`" for name in forward) + ":", ""]
    one = next((name for name in forward if name.endswith("2d")), forward[0])
    shown = [one, *(name for name in names if name == f"{one}_backward")]
    return "\n".join([*lines, *(directive(module, name) for name in shown)])


def directive(module, name):
    thing = getattr(sys.modules[module], name)
    kind = ("class" if isinstance(thing, type) else "function" if callable(thing) else
            "module" if inspect.ismodule(thing) else "data")
    options = ""
    if hasattr(thing, "forward"):
        options = "".join(f"   :{option}\n" for option in ("members: forward, backward", "inherited-members:",
                                                           "exclude-members: train, eval, parameters"))
    return f"```{{eval-rst}}\n.. auto{kind}:: {module}.{name}\n{options}```\n"


def binding(module):
    """The page of a binding."""
    with contextlib.nullcontext() if importlib.util.find_spec(module) else mocked(module):
        imported = importlib.import_module(f"numba_pool.{module}")
    names = public_names(imported)
    layers = [name for name in names if hasattr(getattr(imported, name), "forward")]  # with signatures of PyTorch's
    lines = [f"# numba_pool.{module}", "", f"The guide: [](../{GUIDES.get(module, f'{module}.md')}).", "",
             sections(imported.__name__, [name for name in names if name not in layers])]
    if layers:
        lines += ["## Modules", "", MODULES, "| Module | |", "|---|---|"]
        lines += [f"| `{name}` | {inspect.getdoc(getattr(imported, name))} |" for name in layers]
    return "\n".join(lines) + "\n"


def public_names(module):
    """The names of a binding's functions and Modules."""
    if hasattr(module, "__all__"):
        return module.__all__
    here = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
    return [name for name in here if "_pool" in name or "_unpool" in name]



@contextlib.contextmanager
def mocked(library):
    """Within, the library can be imported, whether it is there or not. What is derived from has to be a class."""
    with mock([library]):
        if library == "torch":
            function, nn = importlib.import_module("torch.autograd"), importlib.import_module("torch.nn")
            sys.modules["torch"].dtype = function.Function = object
            for name in ("Module", *numba_pool.__all__):
                setattr(nn, name, type(name, (), {"__module__": "torch.nn"}))
        yield


def write(path, text):
    """If it changed: Sphinx reads again what is newer."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write_pages(app):
    for page, text in api_pages():
        write(HERE / "api" / f"{page}.md", text)
    for page, source in ELSEWHERE.items():
        source = HERE.parent / source
        write(HERE / "project" / f"{page}.md", linked(source.read_text(encoding="utf-8"), source.parent, "../"))


# ---- pages of the site that stand elsewhere in the repository
ELSEWHERE = {"contributing": "CONTRIBUTING.md", "benchmarks": "asv_benchmarks/README.md", "changelog": "CHANGELOG.md"}
OPTIONAL = ("njit", "architecture")  # not in the table of contents if they are not there


def linked(text, folder, docs):
    """The text of a file in `folder` with links that hold on a page of the site; `docs` is the way from it to docs/."""

    def link(match):
        path, anchor = match[1], match[2] or ""
        file = (folder / path).resolve()
        for page, source in ELSEWHERE.items():
            if file == HERE.parent / source:
                return f"]({docs}project/{page}.md{anchor})"
        if file.is_relative_to(HERE):
            return f"]({docs}{file.relative_to(HERE).as_posix()}{anchor})"
        return f"]({docs}../{file.relative_to(HERE.parent).as_posix()}{anchor})" if file.exists() else match[0]

    return re.sub(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)", link, text)


def read(app, docname, source):
    if (HERE / f"{docname}.md").exists() and "/" not in docname:
        source[0] = linked(source[0], HERE, "")
    if docname == "index":
        for page in OPTIONAL:
            if not (HERE / f"{page}.md").exists():
                source[0] = source[0].replace(f"\n{page}\n", "\n")


def escape_stars(app, what, name, thing, options, lines):
    """Shapes such as (N, C, *spatial) are no emphasis."""
    for number, line in enumerate(lines):
        parts = re.split(r"(`+.*?`+)", line)  # what is code stays
        parts[::2] = (re.sub(r"(?<![*\\])\*(?![* ])(?![^*]*\w\*)", r"\\*", part) for part in parts[::2])
        lines[number] = "".join(parts)


def picture_of(example):
    return next((HERE.parent / "examples" / "images").glob(f"{example}*.png"), None)


def draw_code(example, path):
    """A picture of the first lines of an example that pool, for one that draws nothing."""
    code = (HERE.parent / "examples" / f"{example}.py").read_text(encoding="utf-8").split('"""', 2)[2]
    code = re.sub(r'""".*?"""|#.*', "", code)
    lines = [line.strip()[:38] for line in code.splitlines() if re.search(r"pool|accelerate", line)]
    figure = Figure(figsize=(4, 2.8), facecolor="#eef3f8")
    figure.text(0.05, 0.5, "\n".join(lines[:9]), va="center", family="monospace", fontsize=11, color="#23405c")
    figure.savefig(path)


def show_pictures_small(app):
    """In the overview of the gallery: examples are not run here, so sphinx-gallery has no pictures of its own."""
    thumbs = list((HERE / "gallery" / "images" / "thumb").glob("sphx_glr_*_thumb.png"))
    for thumb in thumbs:
        example = thumb.stem.removeprefix("sphx_glr_").removesuffix("_thumb")
        picture = picture_of(example)
        if picture:
            shutil.copyfile(picture, thumb)
        elif not example.startswith("plot_"):  # which was run, and has a picture
            draw_code(example, thumb)
    if len({thumb.read_bytes() for thumb in thumbs}) < len(thumbs):
        raise ExtensionError("two examples of the gallery have the same picture")


def show_picture(app, docname, source):
    """Under the title of an example, its commands as such and the picture that it draws."""
    if docname.startswith("gallery/") and docname != "gallery/index":
        text = re.sub(r"\n\n(?=    python examples/)", "\n\n.. code-block:: bash\n\n", source[0], count=1)
        label = f".. _sphx_glr_{docname.replace('/', '_')}.py:\n\n"
        before, _, after = text.partition(label)
        if not re.match(r".+\n=+\n", after):  # a docstring without a title: its first words are one
            title = re.match(r"[^.:\n]*", after)[0]
            text = f"{before}{label}{title}\n{'=' * len(title)}\n\n{after}"
        picture = picture_of(Path(docname).name)
        if picture:
            image = f"\n.. image:: /../examples/images/{picture.name}\n   :alt: what it draws\n\n"
            text = re.sub(r"(?<=\n)=+\n", lambda line: line[0] + image, text, count=1)
        source[0] = text


def load_nothing(app, exception):
    """The site works without a network: no page loads scripts, styles, fonts or pictures from elsewhere."""
    if exception or app.builder.format != "html":
        return
    loads = re.compile(r"""<(?:(?:script|img|iframe|source)\b[^>]*\bsrc|link\b[^>]*\bhref)="(?:https?:)?//""")
    imports = re.compile(r"""(?:url\(|@import)\s*['"]?(?:https?:)?//""")
    for path in Path(app.outdir).rglob("*"):
        pattern = {".html": loads, ".css": imports}.get(path.suffix)
        if pattern and (found := pattern.search(path.read_text(encoding="utf-8"))):
            raise ExtensionError(f"{path} loads something from elsewhere: {found[0]}")


def setup(app):
    app.connect("builder-inited", write_pages)
    app.connect("builder-inited", show_pictures_small, priority=900)
    app.connect("autodoc-process-docstring", escape_stars, priority=400)
    app.connect("source-read", show_picture)
    app.connect("source-read", read)
    app.connect("build-finished", load_nothing)
