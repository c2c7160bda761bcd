"""Numbers as people read them, and rows of text as Markdown or LaTeX. Every cell is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

ABSENT = "–"
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "–": "--", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$", "−": "$-$",
}
_MARKDOWN = {"\\": "\\\\", "|": "\\|", "<": "&lt;", ">": "&gt;", "*": "\\*", "`": "\\`", "\n": " "}
_NAMES = {
    "harmonic": "Harmonic", "harmonic-flat": "Harmonic, flat timescales", "harmonic-raw": "Harmonic, raw hidden states",
    "harmonic-tied": "Harmonic, tied embeddings", "transformer": "Transformer", "llama": "Llama", "mamba": "Mamba",
    "resonator": "ResonatorLM", "resonator-uncoupled": "ResonatorLM, no head coupling",
    "resonator-nonlocal": "ResonatorLM, no local path", "resonator-bare": "ResonatorLM, neither",
    "resonator-frozen": "ResonatorLM, frozen kernels", "resonator-decay": "ResonatorLM, pure decay",
    "resonator-onehead": "ResonatorLM, one head",
}


def architecture(name: str) -> str:
    """The name people read; an architecture that is not ours keeps its own."""
    return _NAMES.get(name, name)


def architecture_order(name: str) -> tuple[int, str]:
    """Sort key: ours in a fixed order, others after them by name."""
    known = list(_NAMES)
    return (known.index(name) if name in known else len(known), name)


def absent(value: Any) -> bool:
    """None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def text(value: Any) -> str:
    """A word, or a dash for None and NaN."""
    return ABSENT if absent(value) or value == "" else str(value)


def number(value: Any, digits: int = 3) -> str:
    """`digits` decimals; a dash for None or NaN."""
    if absent(value):
        return ABSENT
    shown = f"{value:.{digits}f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def significant(value: Any, digits: int = 3) -> str:
    """`digits` significant digits, thousands separated, powers of ten beyond 1e-4 .. 1e7."""
    if absent(value):
        return ABSENT
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -4 <= size < 7:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - size)}f}"


def signed(value: Any, digits: int = 2) -> str:
    """Like `number`, with a plus sign where positive."""
    shown = number(value, digits)
    return shown if shown == ABSENT or shown.startswith("-") or float(shown) == 0 else f"+{shown}"


def interval(value: Any, low: Any, high: Any, digits: int = 3, sign: bool = False) -> str:
    """`value [low, high]`; the value alone where there is no interval."""
    show = signed if sign else number
    if absent(value):
        return ABSENT
    return show(value, digits) if absent(low) else f"{show(value, digits)} [{show(low, digits)}, {show(high, digits)}]"


def quartiles(median: Any, low: Any, high: Any) -> str:
    """`median [quartiles]`, three significant digits; the median alone where there are none."""
    if absent(median) or absent(low):
        return significant(median)
    return f"{significant(median)} [{significant(low)}, {significant(high)}]"


def p_value(value: Any) -> str:
    """Three decimals, `<0.001` below."""
    return ABSENT if absent(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def length(value: Any) -> str:
    """Tokens: 512, 1K, 64K, 2M; what is no multiple of 1024 is spelled out."""
    if absent(value):
        return ABSENT
    whole = int(value)
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if whole >= unit and whole % unit == 0:
            return f"{whole // unit}{name}"
    return f"{whole}"


def count(value: Any) -> str:
    """Parameters, tokens, FLOPs: 850, 12.3K, 28.0M, 1.10G, 3.20T, 5.10P."""
    if absent(value):
        return ABSENT
    for limit, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= limit:
            scaled = value / limit
            return f"{scaled:.{max(0, 2 - math.floor(math.log10(abs(scaled))))}f}{unit}"
    return f"{value:.0f}"


def size(value: Any) -> str:
    """Bytes in decimal units: 900 B, 1.2 kB, 3.40 MB, 80.0 GB."""
    if absent(value):
        return ABSENT
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= limit:
            return f"{significant(value / limit)} {unit}"
    return f"{value:.0f} B"


def duration(seconds: Any) -> str:
    """12.3 s, 4.5 min, 6.7 h."""
    if absent(seconds):
        return ABSENT
    if seconds < 120:
        return f"{significant(seconds)} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def escape_latex(words: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX.get(character, character) for character in " ".join(words.split()))


def escape_markdown(words: str) -> str:
    """Text that a Markdown table prints as it is, HTML included."""
    return "".join(_MARKDOWN.get(character, character) for character in words)


def _numeric(column: Sequence[str]) -> bool:
    shown = [words for words in column if words not in (ABSENT, "", "oom", "diverged")]
    return bool(shown) and all(words[0].isdigit() or words[0] in "+-<" for words in shown)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table; columns of numbers are right-aligned."""
    marks = ["---:" if _numeric([row[index] for row in rows]) else "---" for index in range(len(header))]
    lines = [[escape_markdown(words) for words in header], marks, *([escape_markdown(words) for words in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A booktabs tabular (needs the package booktabs); columns of numbers are right-aligned."""
    marks = "".join("r" if _numeric([row[index] for row in rows]) else "l" for index in range(len(header)))
    lines = [" & ".join(map(escape_latex, row)) + r" \\" for row in rows]
    head = " & ".join(map(escape_latex, header)) + r" \\"
    return "\n".join([rf"\begin{{tabular}}{{{marks}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule",
                      r"\end{tabular}"])
