"""A drawing: an SVG whose colours follow the reader's light or dark theme."""

from html import escape
from math import hypot

STYLE = (
    ":root{--ink:#1f2937;--dim:#6b7280;--paper:#fff;--line:#d1d5db;--a:#2563eb;--b:#d97706;--soft:#dbeafe;--warm:#fef3c7}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--dim:#9ca3af;--paper:#1b1e26;--line:#3b404a;--a:#7aa7ff;"
    "--b:#f5b14c;--soft:#22345c;--warm:#4a3a16}}"
    "text{font:13px system-ui,sans-serif;fill:var(--ink)}.dim{fill:var(--dim);font-size:12px}.bold{font-weight:600}"
    ".mid{text-anchor:middle}.end{text-anchor:end}.paper{fill:var(--paper)}line{stroke:var(--line)}"
    ".a{fill:var(--soft);stroke:var(--a)}.b{fill:var(--warm);stroke:var(--b)}.none{fill:none;stroke:var(--line)}"
    "circle{fill:var(--a)}circle.late{fill:var(--b)}.strong{stroke:var(--a);stroke-width:2}.dash{stroke-dasharray:4 4}"
    ".warn{stroke:var(--b);stroke-width:2}.gone{opacity:.4}.mono{font:12px ui-monospace,monospace}"
    ".tiny{font:10px ui-monospace,monospace}.note{font-size:10px;fill:var(--dim)}"
)
WIDTH = 760


class Drawing:
    """An SVG that grows downwards; lengths are in pixels."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write words whose baseline is at y."""
        if words:
            self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    def line(self, x: float, y: float, x2: float, y2: float, kind: str = "") -> None:
        """Draw a line."""
        self.parts.append(f'<line x1="{x:g}" y1="{y:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>')

    def box(self, x: float, y: float, width: float, height: float, words: str = "", kind: str = "a") -> None:
        """Draw a box with words in its middle."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" class="{kind}"/>'
        )
        if words:
            self.text(x + width / 2, y + height / 2 + 4.5, words, "mid")

    def dot(self, x: float, y: float, kind: str = "") -> None:
        """Draw a record."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="5" class="{kind}"/>')

    def arrow(self, x: float, y: float, x2: float, y2: float, kind: str = "strong") -> None:
        """Draw an arrow from one point to another one."""
        length = hypot(x2 - x, y2 - y)
        along, across = (x2 - x) / length, (y2 - y) / length
        self.line(x, y, x2, y2, kind)
        for side in (-4, 4):
            self.line(x2 - 6 * along - side * across, y2 - 6 * across + side * along, x2, y2, kind)

    def svg(self, height: int, title: str) -> str:
        """Return the file's text."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
            f"<title>{escape(title)}</title><style>{STYLE}</style>"
            f'<rect width="{WIDTH}" height="{height}" rx="8" class="paper"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )
