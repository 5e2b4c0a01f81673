"""Static pages of all recipes that open from disk with no network: formulas become MathML, pictures are embedded."""

import html
import re
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

STYLE = Path(__file__).with_name("site.css")
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<nav><a href="index.html">Deep Learning Cookbook</a></nav>
<main>
{body}
</main>
</body>
</html>
"""


class MathMLRenderer(IPythonRenderer):
    """Markdown to HTML with formulas as MathML, which browsers draw without any script."""

    def block_math(self, body: str) -> str:
        """Formula on a line of its own; `body` is LaTeX."""
        return convert(body.strip(), display="block")

    def inline_math(self, body: str) -> str:
        """Formula within a line; `body` is LaTeX."""
        return convert(body.strip())


class OfflineExporter(HTMLExporter):
    """nbconvert's bare template, with formulas and pictures inside the page."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Markdown `source` of the cell in `context` as HTML."""
        renderer = MathMLRenderer(
            escape=False,
            embed_images=True,
            path=context["resources"]["metadata"].get("path", ""),
            attachments=context["cell"].get("attachments", {}),
            exclude_anchor_links=True,
        )
        return MarkdownWithMath(renderer=renderer).render(source)


def site(notebooks: str | Path = "notebooks", out: str | Path = "build/site") -> Path:
    """Write one page for each notebook of the folder `notebooks`, and an index, into the folder `out`."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    style = STYLE.read_text(encoding="utf-8") + HtmlFormatter(style="default").get_style_defs(".highlight")
    entries = []
    for path in sorted(Path(notebooks).glob("*.ipynb")):
        title, body = page(path)
        (out / f"{path.stem}.html").write_text(
            PAGE.format(title=html.escape(title), style=style, body=body), encoding="utf-8"
        )
        entries.append(f'<li><a href="{path.stem}.html">{html.escape(title)}</a></li>')
    index = "<h1>Deep Learning Cookbook</h1>\n<ul>\n" + "\n".join(entries) + "\n</ul>"
    text = PAGE.format(title="Deep Learning Cookbook", style=style, body=index)
    (out / "index.html").write_text(text, encoding="utf-8")
    return out


def page(path: str | Path) -> tuple[str, str]:
    """Title and HTML body of the notebook at `path`."""
    path = Path(path)
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [shown for output in cell.outputs for shown in _with_words(output)]
    resources = {"metadata": {"name": path.stem, "path": str(path.parent)}}
    body, _ = OfflineExporter(template_name="basic", embed_images=True).from_notebook_node(notebook, resources)
    body = re.sub(r'(href="\d\d-[\w-]+)\.ipynb', r"\1.html", body)
    first = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), path.stem)
    return first.splitlines()[0].lstrip("# "), body


def _with_words(output: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """A picture gets its text as alternative; a sentence is also printed above it, since no panel will say it here."""
    if "image/png" not in output.get("data", {}):
        return [output]
    words = output["data"].get("text/plain", "")
    output["metadata"] = nbformat.from_dict({"image/png": {"alt": words}})
    if words.startswith("<"):
        return [output]
    return [nbformat.v4.new_output("stream", name="stdout", text=words), output]
