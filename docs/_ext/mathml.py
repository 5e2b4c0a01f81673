"""Formulas as MathML, which browsers draw without a script."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

SCROLLS = (
    "pst-scrollable-table-container"  # the theme's class of boxes that scroll by key too, where they are too narrow
)


def setup(app):
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _mathml(node, display):
    latex = node.astext().strip().replace(r"\arg", r"\operatorname{arg}")
    return convert(latex.replace("<", r"\lt ").replace(">", r"\gt "), display=display)  # no tag of a formula's own


def _inline(translator, node):
    translator.body.append(_mathml(node, "inline"))
    raise SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="formula {SCROLLS}">{_mathml(node, "block")}</div>\n')
    raise SkipNode
