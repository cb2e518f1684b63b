"""From sections to files: a page of markdown and a plot each, and the blocks of the README that show them."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from .sections.common import Section, Table

README = Path(__file__).parents[2] / "README.md"


def machine() -> str:
    """The processor's model and how many cores this process may use; nothing that names the machine."""
    model = ""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        model = found.group(1).strip() if found else ""
    except OSError:
        pass
    model = model or platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, {platform.system()}"


def markdown(table: Table) -> str:
    lines = [f"**{table.title}**", "", row(table.head), "|" + "---|" * len(table.head)]
    return "\n".join([*lines, *[row(cells) for cells in table.rows]])


def row(cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"  # type: ignore[attr-defined]


def page(section: Section, server: str, versions: Mapping[str, str], picture: str | None) -> str:
    known = ", ".join(
        f"{name} {version}" for name, version in sorted(versions.items(), key=lambda item: item[0].lower())
    )
    parts = [f"# {section.title}", f"{server}, Python {platform.python_version()}, {known}. {machine()}."]
    if picture:
        parts.append(f"![{section.title}]({picture})")
    parts += [markdown(table) for table in section.tables]
    if section.notes:
        parts.append("\n".join(f"- {note}" for note in section.notes))
    return "\n\n".join(parts) + "\n"


def draw(section: Section, path: Path) -> bool:
    """Raises ImportError, with what to install, where matplotlib is not there."""
    if section.plot is None:
        return False
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'relet[benchmarks]', or give --no-plots") from None
    matplotlib.rcParams["svg.hashsalt"] = "relet"
    matplotlib.rcParams["svg.fonttype"] = "none"
    figure = Figure(layout="constrained")
    section.plot(figure)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return True


def write(
    folder: Path,
    name: str,
    section: Section,
    server: str,
    versions: Mapping[str, str],
    plots: bool,
    readme: Path | None,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots and draw(section, folder / f"{name}.svg")
    (folder / f"{name}.md").write_text(page(section, server, versions, f"{name}.svg" if drawn else None))
    if readme:
        show(readme, name, section)


def show(readme: Path, name: str, section: Section) -> None:
    """Puts the tables whose block the README has (``<!-- figures NAME N -->``) there."""
    text = readme.read_text()
    for number, table in enumerate(section.tables, 1):
        begin, end = f"<!-- figures {name} {number} -->", "<!-- /figures -->"
        block = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        new = f"{begin}\n{markdown(table)}\n{end}"
        text = block.sub(lambda _, new=new: new, text)
    readme.write_text(text)
