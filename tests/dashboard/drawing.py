"""Draws the dashboard's panels from Prometheus's answers, so that a person can see what Grafana would show."""

import io
import re
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from PIL import Image

Json = dict[str, Any]
Series = list[Json]

DPI = 72
COLOURS = 64
COLUMN_INCHES, LINE_INCHES = 0.75, 0.38
# Of a panel: what is left of its plot, below it for the legend, and above it for the title.
LEFT_COLUMNS, LEGEND_LINES, TITLE_LINES = 1.0, 2.5, 0.8
LEGEND_MOST, LEGEND_WIDTH = 8, 26
SCALES = {"s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")), "bytes": ((2**20, "MiB"), (2**10, "KiB"))}
SUFFIXES = {"reqps": "/s", "ops": "/s", "currencyUSD": " $"}


def draw(panels: list[Json], answers: dict[int, list[Series]], file: Path) -> int:
    """Write a PNG; its size in bytes. `panels`: with the titles of rows. `answers`: of each other panel, by its id, the
    series of each query."""
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = Figure(figsize=(24 * COLUMN_INCHES, bottom * LINE_INCHES), dpi=DPI, facecolor="#f4f5f5")
    for panel in panels:
        place = panel["gridPos"]
        if panel["type"] == "row":
            figure.text(0.008, 1 - (place["y"] + 0.75) / bottom, panel["title"], fontsize=15, fontweight="bold")
            continue
        left = LEFT_COLUMNS * (2.2 if panel["type"] == "bargauge" else 1)
        width, height = place["w"] - left - 0.3, place["h"] - TITLE_LINES - LEGEND_LINES
        floor = place["y"] + TITLE_LINES + height
        axes = figure.add_axes(((place["x"] + left) / 24, 1 - floor / bottom, width / 24, height / bottom))
        axes.set_title(panel["title"], fontsize=11, loc="left")
        if panel["type"] == "bargauge":
            _bars(axes, panel, answers[panel["id"]])
        else:
            _lines(axes, panel, answers[panel["id"]])
    drawn = io.BytesIO()
    figure.savefig(drawn)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(COLOURS).save(file, optimize=True)
    return file.stat().st_size


def _named(panel: Json, answers: list[Series]) -> list[tuple[str, list[tuple[float, float]]]]:
    """All series of a panel with their legends."""
    return [
        (_legend(target["legendFormat"], series["metric"]), series["values"])
        for target, found in zip(panel["targets"], answers, strict=True)
        for series in found
    ]


def _legend(template: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), template)


def _lines(axes: Axes, panel: Json, answers: list[Series]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    named = sorted(_named(panel, answers), key=lambda each: -each[1][-1][1])
    start = min((values[0][0] for _, values in named), default=0)
    if defaults["custom"]["stacking"]["mode"] == "normal" and named:
        moments = sorted({moment for _, values in named for moment, _ in values})
        heights = [[dict(values).get(moment, 0) for moment in moments] for _, values in named]
        axes.stackplot([moment - start for moment in moments], heights, labels=[name for name, _ in named], alpha=0.75)
    else:
        for name, values in named:
            axes.plot([moment - start for moment, _ in values], [value for _, value in values], label=name)
    if defaults["custom"]["scaleDistribution"]["type"] == "log":
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    limits = [step["value"] for step in defaults["thresholds"]["steps"] if step["value"]]
    for limit in limits:
        axes.axhline(limit, color="#d33", linewidth=1, linestyle="--")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, defaults["unit"])))
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.4)
    handles, names = axes.get_legend_handles_labels()
    if handles:
        names = [name if len(name) <= LEGEND_WIDTH else name[: LEGEND_WIDTH - 1] + "…" for name in names[:LEGEND_MOST]]
        axes.legend(
            handles[: len(names)],
            names,
            fontsize=8,
            loc="upper left",
            bbox_to_anchor=(-0.03, -0.1),
            ncols=2 if panel["gridPos"]["w"] < 8 else 3,
            frameon=False,
            columnspacing=1,
            handlelength=1.2,
        )
    else:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color="#888")


def _bars(axes: Axes, panel: Json, answers: list[Series]) -> None:
    """The latest values, the fullest on top."""
    defaults = panel["fieldConfig"]["defaults"]
    limit = defaults["thresholds"]["steps"][-1]["value"]
    named = sorted((values[-1][1], name) for name, values in _named(panel, answers))
    colours = ["#d33" if value >= limit else "#5a5" for value, _ in named]
    bars = axes.barh([name for _, name in named], [value for value, _ in named], color=colours)
    axes.bar_label(bars, [written(value, defaults["unit"]) for value, _ in named], fontsize=8, padding=3)
    axes.set_xlim(0, 1.1)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, defaults["unit"])))


def written(value: float, unit: str) -> str:
    """A number as people read it."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    for scale, name in SCALES.get(unit, ()):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:.3g}{SUFFIXES.get(unit, '')}"
