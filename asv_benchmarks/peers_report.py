"""From the results of compare_peers.py to plots and to the tables of pages."""

import math
import os
from collections import defaultdict
from pathlib import Path

from peers import PEERS, Case

OPERATIONS = {
    "argmax": "max pooling, forward with indices + backward",
    "max": "max pooling, forward alone",
    "avg": "average pooling, forward + backward",
    "global_avg": "global average",
}
LAYOUTS = {"nchw": "channels first", "nhwc": "channels last"}
# The README's table: cases, and peers. Of NumPy the fastest way counts.
SHORT_CASES = {
    "alexnet1": "AlexNet's first pool, 3x3",
    "vgg1": "VGG's first pool, 2x2",
    "resnet stem": "ResNet's pool, 3x3",
}
SHORT_PEERS = {
    "**numba_pool**": ["ours"],
    "oneDNN, called from PyTorch": ["torch_onednn"],
    "PyTorch, channels last": ["torch_channels_last"],
    "ten lines of `@njit(parallel=True)`": ["njit"],
    "PyTorch": ["torch"],
    "plain NumPy: the fastest of three implementations": ["numpy_reshape", "numpy_shifted", "numpy_windows"],
}
COLOURS = {
    "ours": "#c1272d",
    "torch": "#e8a33d",
    "torch_channels_last": "#b8791c",
    "torch_onednn": "#7a5210",
    "jax": "#3f7fbf",
    "tensorflow": "#6aa84f",
    "litert": "#38761d",
    "onnxruntime": "#8e63b5",
    "openvino": "#4b3b8f",
    "njit": "#222222",
    "numpy_reshape": "#999999",
    "numpy_shifted": "#666666",
    "numpy_windows": "#bbbbbb",
}


# ---- numbers
def step(row: dict) -> dict[str, float]:
    """Seconds per peer of what the row is about: forward alone for "max", else forward + backward.

    For an operation with a backward, a peer that has the forward alone does not count.
    """
    if row["operation"] == "max":
        return row["forward"]
    return {peer: t + row["backward"][peer] for peer, t in row["forward"].items() if peer in row["backward"]}


def fastest(times: dict[str, float]) -> str | None:
    """The fastest peer that is not ours."""
    others = {peer: seconds for peer, seconds in times.items() if peer != "ours"}
    return min(others, key=others.get) if others else None


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def ratios(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """(operation, layout) -> for each case: its name, the fastest peer, the ratio to it, and to every peer."""
    groups = defaultdict(list)
    for row in rows:
        times = step(row)
        best = fastest(times)
        if row["part"] == "networks" and "ours" in times and best:
            all_ratios = {peer: t / times["ours"] for peer, t in times.items() if peer != "ours"}
            entry = {"case": row["case"], "best": best, "ratio": all_ratios[best], "peers": all_ratios}
            groups[row["operation"], row["layout"]].append(entry)
    return dict(groups)


def moved_bytes(row: dict, direction: str) -> int:
    """Bytes that an operation has to read and write, each once."""
    names = ("operation", "layout", "shape", "kernel", "stride", "padding")
    return sum(Case(**{name: row[name] for name in names}, threads=1).traffic(direction))


def memory_shares(rows: list[dict]) -> list[dict]:
    """For each memory-bound case and direction: bytes per second of each peer over those of the best copy."""
    shares = []
    for row in rows:
        if row["part"] != "memory":
            continue
        copy = max(row["copy_bytes_per_second"].values())
        for direction in ("forward", "backward"):
            times = row[direction]
            if "ours" in times:
                moved = moved_bytes(row, direction)
                rate = {peer: moved / t / copy for peer, t in times.items()}
                names = {"case": row["case"], "operation": row["operation"], "direction": direction}
                shares.append(names | rate)
    return shares


# ---- plots
def draw(results: dict, folder: Path) -> list[Path]:
    """Write the plots for which there are results; the files written."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, plot in (("ratios", draw_ratios), ("kernels", draw_kernels), ("memory", draw_memory)):
        figure = plot(results["rows"])
        if figure is not None:
            figure.supxlabel(machine_line(results), fontsize=7, color="#555555")
            figure.savefig(folder / f"{name}.png", dpi=110)
            drawn.append(folder / f"{name}.png")
    return drawn


def draw_ratios(rows):
    """One panel per operation and memory order, one line per case: how many times longer each peer takes."""
    groups = ratios(rows)
    if not groups:
        return None
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    operations = [o for o in OPERATIONS if any(key[0] == o for key in groups)]
    layouts = [name for name in LAYOUTS if any(key[1] == name for key in groups)]
    lines = max(len(entries) for entries in groups.values())
    figure = Figure(figsize=(6.2 * len(layouts), (0.24 * lines + 1.0) * len(operations) + 0.9), layout="constrained")
    axes = figure.subplots(len(operations), len(layouts), squeeze=False, sharex=True)
    seen = set()
    for i, operation in enumerate(operations):
        for j, layout in enumerate(layouts):
            entries = groups.get((operation, layout), [])
            ax = axes[i, j]
            for y, entry in enumerate(entries):
                for peer, ratio in entry["peers"].items():
                    best = peer == entry["best"]
                    seen.add(peer)
                    ax.scatter(
                        ratio, y, s=42 if best else 14, color=COLOURS[peer], edgecolor="black" if best else "none",
                        linewidth=0.8, zorder=3 if best else 2,
                    )  # fmt: skip
            ax.axvline(1, color=COLOURS["ours"], linewidth=1.2)
            ax.set_xscale("log")
            ax.set_yticks(range(len(entries)), [entry["case"] for entry in entries], fontsize=8)
            ax.invert_yaxis()
            ax.grid(axis="x", color="#dddddd", linewidth=0.6)
            ax.set_title(f"{OPERATIONS[operation]}, {LAYOUTS[layout]}", fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("time of the peer / time of numba_pool (outlined: the fastest peer)", fontsize=8)
    handles = [
        Line2D([], [], marker="o", linestyle="", color=COLOURS[peer], label=PEERS[peer].label)
        for peer in PEERS
        if peer in seen
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=5, fontsize=8, frameon=False)
    return figure


def draw_kernels(rows):
    """Time against the window's width at stride 1."""
    rows = sorted((row for row in rows if row["part"] == "kernels"), key=lambda row: row["kernel"][0])
    if not rows:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    ax = figure.subplots()
    for peer in PEERS:
        points = [(row["kernel"][0], row["forward"][peer] * 1e3) for row in rows if peer in row["forward"]]
        if points:
            ours = peer == "ours"
            ax.plot(
                *zip(*points, strict=True), marker="o", markersize=3 if not ours else 5, label=PEERS[peer].label,
                color=COLOURS[peer], linewidth=2.4 if ours else 1.1, zorder=3 if ours else 2,
            )  # fmt: skip
    widths = sorted({row["kernel"][0] for row in rows})
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(widths, [str(k) for k in widths])
    ax.minorticks_off()
    ax.grid(color="#dddddd", linewidth=0.6)
    ax.set_xlabel("kernel size k (k x k, stride 1)")
    ax.set_ylabel("milliseconds")
    ax.set_title(f"max pooling of {'x'.join(map(str, rows[0]['shape']))}, float32, forward", fontsize=10)
    ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_memory(rows):
    """Bytes per second as a share of the best parallel copy."""
    shares = memory_shares(rows)
    if not shares:
        return None
    from matplotlib.figure import Figure

    peers = [peer for peer in PEERS if any(peer in share for share in shares)]
    figure = Figure(figsize=(8.4, 0.5 * len(shares) + 1.6), layout="constrained")
    ax = figure.subplots()
    height = 0.8 / len(peers)
    for i, peer in enumerate(peers):
        bars = [(y + i * height - 0.4, share[peer]) for y, share in enumerate(shares) if peer in share]
        places, widths = zip(*bars, strict=True)
        ax.barh(places, widths, height, align="edge", color=COLOURS[peer], label=PEERS[peer].label)
    ax.set_yticks(range(len(shares)), [share_name(share) for share in shares], fontsize=8)
    ax.invert_yaxis()
    ax.axvline(1, color="#333333", linewidth=1)
    ax.axvline(0.8, color="#333333", linewidth=0.8, linestyle=":")
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("bytes read and written per second / those of the best parallel copy (dotted: 0.8)", fontsize=8)
    ax.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def share_name(share: dict) -> str:
    names = {"argmax": "max with indices", "max": "max", "avg": "average", "global_avg": "average"}
    return f"{names[share['operation']]} {share['case']} {share['direction']}"


# ---- the page
def machine_line(results: dict) -> str:
    m = results["machine"]
    return f"{m['cpu']}, {m['cores']} cores, {m['threads']} threads, {m['system']}, Python {m['python']}"


def days(rows: list[dict]) -> str:
    dates = sorted({row["date"] for row in rows})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def section(results: dict, image_folder: str, images: list[str]) -> str:
    """The performance section, in Markdown."""
    rows, when = results["rows"], days(results["rows"])
    versions = ", ".join(f"{module} {version}" for module, version in results["versions"].items())
    lines = [
        f"Measured {when} with {versions}, on {machine_line(results)}; float32, the public calls with fresh outputs.",
        "Above 1 means that numba_pool is faster. Each case is held against the fastest of all peers on that case,",
        "and against plain PyTorch.",
        "",
    ]
    groups = ratios(rows)
    if groups:
        lines += [
            "| operation | memory order | cases | fastest peer, geometric mean | worst case | plain PyTorch |",
            "|---|---|---|---|---|---|",
        ]
        for operation in OPERATIONS:
            for layout in LAYOUTS:
                if entries := groups.get((operation, layout)):
                    lines.append(table_line(operation, layout, entries))
        lines.append("")
    captions = {
        "ratios": "Time of each peer over ours, case by case",
        "kernels": "Time against the kernel size",
        "memory": "Share of the best parallel copy",
    }
    lines += [f"![{captions[name]}]({image_folder}/{name}.png)" for name in images]
    lines += ["", "Printed by `python asv_benchmarks/compare_peers.py --pages docs/performance.md README.md`."]
    return "\n".join(lines)


def short(results: dict) -> str:
    """The README's table, in Markdown: milliseconds of maxima with indices and their gradients."""
    rows = [row for row in results["rows"] if row["part"] == "networks" and row["case"] in SHORT_CASES]
    times = {row["case"]: step(row) for row in rows if (row["operation"], row["layout"]) == ("argmax", "nchw")}
    lines = [f"| | {' | '.join(SHORT_CASES[case] for case in times)} |", f"|---|{'---|' * len(times)}"]
    for label, peers in SHORT_PEERS.items():
        best = [min((found[peer] for peer in peers if peer in found), default=None) for found in times.values()]
        if None not in best:
            star = "**" if peers == ["ours"] else ""
            lines.append(f"| {label} | {' | '.join(star + milliseconds(t) + star for t in best)} |")
    return "\n".join([*lines, "", f"Float32, {machine_line(results)}, {days(rows)}."])


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.{1 if seconds < 0.01 else 0}f}"


def table_line(operation: str, layout: str, entries: list[dict]) -> str:
    mean = geometric_mean([entry["ratio"] for entry in entries])
    worst = min(entries, key=lambda entry: entry["ratio"])
    torch = [entry["peers"]["torch"] for entry in entries if "torch" in entry["peers"]]
    cells = [
        OPERATIONS[operation],
        LAYOUTS[layout],
        str(len(entries)),
        f"{mean:.2f}",
        f"{worst['ratio']:.2f} ({worst['case']}, {PEERS[worst['best']].label})",
        f"{geometric_mean(torch):.1f}" if torch else "-",
    ]
    return f"| {' | '.join(cells)} |"


def write_tables(results: dict, page: Path, plots: Path) -> None:
    """Replace what stands between the marker comments of the page, of one table or of both."""
    images = [name for name in ("ratios", "kernels", "memory") if (plots / f"{name}.png").exists()]
    folder = Path(os.path.relpath(plots.resolve(), page.resolve().parent)).as_posix()
    text = page.read_text()
    tables = {"performance": lambda: section(results, folder, images), "pooling speed": lambda: short(results)}
    for name in [name for name in tables if f"<!-- {name}: " in text] or tables:
        text = replaced(text, name, tables[name]())
    page.write_text(text)


def replaced(text: str, name: str, content: str) -> str:
    """``text`` with ``content`` between the markers of that name, which must stand there once, in this order."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the page must hold {begin!r} and, after it, {end!r}, once each")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    return f"{before}{begin}\n{content}\n{end}{after}"
