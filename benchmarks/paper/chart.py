"""Charts: lines by method over a parameter, on logarithmic axes where values span decades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

SIZE_INCHES = 7.6, 4.8
DOTS_PER_INCH = 110
DECADE = 10.0
MARKERS = "os^vDPX*<>h"
HIGHLIGHTED = ("herald", "psthash", "pstbloom", "betree", "opindex")
"""Methods with a heavier line: our own, and those that the papers compare themselves with."""


def draw_lines(
    path: Path,
    title: str,
    axes: tuple[str, str],
    at: Sequence[float],
    lines: Mapping[str, Sequence[float]],
) -> None:
    """One line a method over `at`; `axes` are the labels of x and y."""
    figure, plot = pyplot.subplots(figsize=SIZE_INCHES, layout="constrained")
    for number, (method, values) in enumerate(lines.items()):
        plot.plot(
            at,
            values,
            marker=MARKERS[number % len(MARKERS)],
            linewidth=2.2 if method in HIGHLIGHTED else 1.2,
            markersize=5,
            label=method,
        )
    if spans_a_decade(at):
        plot.set_xscale("log")
    if spans_a_decade([value for values in lines.values() for value in values]):
        plot.set_yscale("log")
    plot.set_title(title, fontsize=10)
    plot.set_xlabel(axes[0])
    plot.set_ylabel(axes[1])
    plot.grid(True, which="major", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the version of the library, so that equal figures are equal files.
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": ""})
    pyplot.close(figure)


def draw_bars(path: Path, title: str, label: str, values: Mapping[str, float]) -> None:
    """One bar a method, the smallest on top."""
    figure, plot = pyplot.subplots(figsize=SIZE_INCHES, layout="constrained")
    ordered = sorted(values.items(), key=lambda pair: -pair[1])
    bars = plot.barh([name for name, _ in ordered], [value for _, value in ordered])
    plot.bar_label(bars, fmt=three_digits, fontsize=8, padding=3)
    plot.margins(x=0.15)  # for the labels
    if spans_a_decade(list(values.values())):
        plot.set_xscale("log")
    plot.set_title(title, fontsize=10)
    plot.set_xlabel(label)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": ""})
    pyplot.close(figure)


def three_digits(value: float) -> str:
    """As people write numbers: without an exponent."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 1_000 else f"{rounded:g}"


def spans_a_decade(values: Sequence[float]) -> bool:
    """Are values positive, and the largest more than ten times the smallest?"""
    return min(values) > 0 and max(values) > DECADE * min(values)
