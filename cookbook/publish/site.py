"""The project's home page: static pages of all recipes and public names that open from disk with no network."""

import ast
import inspect
import json
import pkgutil
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from html import escape, unescape
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import bleach
import nbformat
from bleach.css_sanitizer import CSSSanitizer
from jinja2 import Environment, FileSystemLoader, pass_context
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from cookbook.catalog.files import write_text
from cookbook.charts.card import SAVED_NOTE
from cookbook.publish import offline
from cookbook.publish.notebook import WIDGET_VIEW, read

HERE = Path(__file__).parent


# Allowed content of a page: text, tables, pictures and formulas. Scripts, styles, forms and frames are removed.
TEXT = """a abbr acronym b blockquote br caption code col colgroup dd del details div dl dt em figcaption figure h1 h2
h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp section small span strong sub summary sup table tbody td tfoot
th thead tr tt u ul var"""
MATHML = """math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr
mtd mstyle mpadded mphantom mfenced menclose mmultiscripts mprescripts none"""
GLOBAL_ATTRIBUTES = """class id title role lang dir scope align valign colspan rowspan open start aria-label aria-hidden
tabindex alt width height border style"""
FORMULA = """display xmlns displaystyle mathvariant stretchy fence form separator accent lspace rspace linethickness
columnalign rowspacing columnspacing minsize maxsize movablelimits scriptlevel largeop symmetric notation close
separators depth voffset"""
STYLES = "text-align list-style list-style-type margin padding width background-color"
UNSAFE_ELEMENTS = re.compile(r"(?is)<(script|style|noscript|template|iframe|object|svg)\b.*?(</\1\s*>|\Z)")
PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+|(?![a-z][a-z0-9+.-]*:|//)\S+", re.I)

# Patterns of a course: rows of its schedule, recipes and links in them, its closing sentence; the card of a recipe.
ROW = re.compile(r"^\| (\d+:\d\d)–(\d+:\d\d) \|(.*)\|$", re.M)
RECIPE = re.compile(r"\]\(\.\./(\d\d-[\w-]+)\.ipynb\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
TO_LEAVE_WITH = re.compile(r"One sentence to leave with: \*(.+)\*")
CARD = '<div class="ck-card">'
VOTES_IN_SHORT, TO_DISCUSS = 1, 3  # votes of a shortened recipe; questions of one slide


class MathMLRenderer(IPythonRenderer):
    """Markdown to HTML with formulas as MathML, which browsers draw without any script."""

    def heading(self, text: str, level: int, **_: Any) -> str:
        """Return the heading of `level` with its words as the anchor; `text` is HTML."""
        anchor = re.sub(r"\W+", "-", unescape(re.sub(r"<[^>]*>", "", text))).strip("-")
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'

    def block_math(self, body: str) -> str:
        """Return a formula on a line of its own; `body` is LaTeX."""
        return convert(body.strip(), display="block")

    def inline_math(self, body: str) -> str:
        """Return a formula within a line; `body` is LaTeX."""
        return convert(body.strip())


class OfflineExporter(HTMLExporter):
    """nbconvert's bare template, with formulas and pictures inside the page."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Return the Markdown `source` of the cell in `context` as HTML."""
        renderer = MathMLRenderer(
            escape=False,
            embed_images=True,
            path=context["resources"]["metadata"].get("path", ""),
            attachments=context["cell"].get("attachments", {}),
        )
        return MarkdownWithMath(renderer=renderer).render(source)


@dataclass(frozen=True)
class Page:
    """One page of the site.

    Attributes
    ----------
    name, title, body : str
        Stem of the file, first heading, and clean HTML.
    sections : tuple of (anchor, heading, text)
        The entries of the search.
    line : str
        The headline of a recipe's opening panel, or the summary of a namespace.
    question, minutes, picture, alt : str
        Further fields of a recipe on the front page; like `line`, read from the notebook.
    names : tuple of str
        Public names that the page explains.
    live : str
        Code of a panel that answers on the page itself; empty where none does.
    """

    name: str
    title: str
    body: str
    sections: tuple[tuple[str, str, str], ...] = ()
    line: str = ""
    question: str = ""
    minutes: str = ""
    picture: str = ""
    alt: str = ""
    names: tuple[str, ...] = ()
    live: str = ""


def site(notebooks: str | Path = "notebooks", out: str | Path = "build/site") -> Path:
    """Write a gallery and pages into the folder `out`: `notebooks`, README and the pages it links, slides, names."""
    notebooks, out = Path(notebooks), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    paths = [*sorted(notebooks.glob("*.ipynb")), *sorted(notebooks.glob("history/*.ipynb"))]
    recipes, names = [page(path) for path in paths], reference()
    documents = [_readme_page(readme)] if (readme := notebooks.parent / "README.md").is_file() else []
    documents += [_markdown_page(path) for path in sorted(notebooks.parent.glob("docs/*.md"))] if documents else []
    documents += [_slides_page(path) for path in sorted(notebooks.glob("facilitator/*-course.md"))]
    opening = re.search(r"(?s)<p>.*?</p>", recipes[0].body) if recipes else None
    front = Page("index", "Deep Learning Cookbook", opening[0] if opening else "")
    names_known = {entry.name for entry in [front, *recipes, *names, *documents]}
    script = (HERE / "site.js").read_text(encoding="utf-8")
    shared = {
        "style": (HERE / "site.css").read_text(encoding="utf-8"),
        "script": script,
        "about": documents,
        "recipes": recipes,
        "reference": names,
    }
    template = Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True).get_template("site.html")
    index = _index([*recipes, *names, *documents])
    for group in ([front], recipes, names, documents):
        for before, current, after in zip([None, *group], group, [*group[1:], None], strict=False):
            shown = {
                "page": replace(current, body=_links_kept(current.body, names_known)),
                "before": before,
                "after": after,
            }
            panel = offline.scripts(current.live) if current.live else {}
            shown["digests"] = [_digest(text) for text in (script, *panel.get("modules", ()))]
            text = template.render(**shown, index=index if current is front else "", panel=panel, **shared)
            write_text(out / f"{current.name}.html", text)
    return out


def _digest(script: str) -> str:
    """Return the hash by which a page's content policy allows one of its scripts."""
    return b64encode(sha256(script.encode()).digest()).decode()


def _index(pages: list[Page]) -> str:
    """Return the search index as JSON that no tag can end: (heading, title of the page, address, text) of sections."""
    entries = [
        (title, entry.title, f"{entry.name}.html#{anchor}", text)
        for entry in pages
        for anchor, title, text in entry.sections
    ]
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _links_kept(body: str, pages_known: set[str]) -> str:
    """Keep links to a page of the site, a place in this one or the web; other links become plain text."""

    def kept(link: re.Match[str]) -> str:
        stem, page_of_ours, _ = link[1].partition(".html")
        elsewhere = link[1].startswith(("#", "http:", "https:", "mailto:"))
        return link[0] if elsewhere or (page_of_ours and stem in pages_known) else link[2]

    return re.sub(r'(?s)<a\b[^>]*?href="([^"]*)"[^>]*>(.*?)</a>', kept, body)


def page(path: str | Path) -> Page:
    """Return the notebook at `path` as a page."""
    path = Path(path)
    notebook = read(path)
    opening = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), path.stem)
    question, minutes = re.search(r"(?s)\*\*(.+?)\*\*", opening), re.search(r"(?i)\babout (\d+) minutes", opening)
    fields = {"question": " ".join(question[1].split()) if question else "", "minutes": minutes[1] if minutes else ""}
    panels = (output.data for cell in notebook.cells for output in cell.get("outputs", []) if _is_panel(output))
    if panel := next(panels, None):
        answer, _, title = _panel_text(panel["text/plain"])
        first = re.split(r"(?<=[^.]\.) (?=[A-Z\d])", answer)[0]
        fields |= {"line": first, "alt": title, "picture": panel["image/png"]}
        fields |= {"live": _live_code(path.stem, panel["text/plain"])}
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = list(_with_cards(cell.outputs))
    resources = {"metadata": {"name": path.stem, "path": str(path.parent)}}
    plain = dict.fromkeys(("embed_images", "exclude_input_prompt", "exclude_output_prompt"), True)
    body, _ = OfflineExporter(template_name="basic", **plain).from_notebook_node(notebook, resources)
    body = clean(body)
    if fields.get("live"):
        body = body.replace(CARD, f'<div class="ck-live"></div>{CARD}', 1)
    return _assembled_page(path.stem, opening.splitlines()[0].lstrip("# "), body, **fields)


def _live_code(stem: str, words: str) -> str:
    """Return the code of the panel that answers on its page, from its printed text; empty for any other."""
    if not stem.startswith(offline.RECIPE):
        return ""
    code = next((line for line in words.splitlines() if line.startswith("cb.panels.")), "")
    return code if code and offline.opening(code) is not None else ""


def _readme_page(readme: Path) -> Page:
    """Return README as a page, without its pictures, which the front page has."""
    text = re.sub(r"(?s)<details>.*?</details>|!\[[^\]]*\]\([^)]*\)", "", readme.read_text(encoding="utf-8"))
    return replace(_markdown_page(readme, text), name="about", title="Install and accuracy")


def _markdown_page(path: Path, text: str = "") -> Page:
    """Return a page of Markdown, or of another `text`; links to other pages lead to those of the site."""
    text = text or path.read_text(encoding="utf-8")
    body = clean(MarkdownWithMath(renderer=MathMLRenderer(escape=False)).render(text))
    body = re.sub(r'href="(?:\.\./)?(?:notebooks|docs)/', 'href="', body)
    body = body.replace('href="../README.md', 'href="about.md').replace('href="facilitator/', 'href="slides-')
    body = re.sub(r'href="([\w-]+)\.md(#[^"]*)?"', r'href="\1.html"', body)
    return _assembled_page(path.stem, text.partition("\n")[0].lstrip("# "), body)


def _slides_page(path: Path) -> Page:
    """Return the slides of a course."""
    body = clean(slides(path))
    return _assembled_page(f"slides-{path.stem}", "Slides: " + path.stem.replace("-", " "), body)


def slides(course: str | Path) -> str:
    """Return HTML of the slides of a course, one section per slide; they show votes and questions, and no answer.

    Parameters
    ----------
    course : str or Path
        Its facilitator page, whose table of times, blocks, recipes and ways names notebooks of the folder above.

    Returns
    -------
    str
        Sections with headings, in the order of the schedule.

    Raises
    ------
    ValueError
        If the page has no schedule.
    """
    course = Path(course)
    text = course.read_text(encoding="utf-8")
    rows = [(start, end, *(cell.strip() for cell in rest.split("|"))) for start, end, rest in ROW.findall(text)]
    if not rows:
        raise ValueError(f"{course} has no schedule: its rows begin like '| 9:00–9:45 | block | recipe | how |'")
    title, sentence = text.partition("\n")[0].lstrip("# "), TO_LEAVE_WITH.search(text)
    whole = "".join(f"<tr><td>{start}–{end}</td><td>{_line(block)}</td></tr>" for start, end, block, *_ in rows)
    closing = f"<p>{_line(_capitalised(sentence[1]))}</p>" if sentence else ""
    sections = [(title, closing), ("Schedule", f"<table>{whole}</table>")]
    for start, end, block, recipe, how, *leaves in rows:
        if linked := RECIPE.search(recipe):
            sections += _slides_of(course, linked[1], f"{start}–{end}", block, how, leaves)
        else:
            sections.append((f"{_line(block)}, until {end}", f"<p>{_line(how)}</p>"))
    return "".join(
        f'<section class="slide"><h{min(at, 1) + 1} id="slide-{at}">{head}</h{min(at, 1) + 1}>{body}</section>\n'
        for at, (head, body) in enumerate(sections)
    )


def _slides_of(
    course: Path, name: str, time: str, block: str, how: str, leaves: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield heading and HTML of each slide of a block: the decision, the votes, the discussion, the takeaways."""
    notebook = read(course.parents[1] / f"{name}.ipynb")
    opening = next(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    question_bold, goals = re.search(r"(?s)\*\*(.+?)\*\*", opening), re.findall(r"^\d\. (.+)$", opening, re.M)
    decision = f'<p class="question">{_line(question_bold[1])}</p>' if question_bold else ""
    goal = f"<p>You will be able to</p><ol>{_points(goals)}</ol>" if goals else ""
    yield f"{_line(block)} ({time})", f"{decision}{goal}"
    votes = [vote for cell in notebook.cells if cell.cell_type == "code" for vote in _votes(cell.source)]
    for question, options in votes if how.startswith("Whole") else votes[:VOTES_IN_SHORT]:
        letters = '<ol style="list-style-type: lower-alpha">'
        yield "Vote", f'<p class="question">{_line(question)}</p>{letters}{_points(options)}</ol>'
    page = course.parent / f"{name}.md"
    if page.is_file():
        text = page.read_text(encoding="utf-8")
        aloud = re.search(r"(?s)## Questions to ask aloud\n(.+?)\n## ", text)
        listed = re.findall(r"^- (.+?)(?: \(.*)?$", aloud[1], re.M) if aloud else []
        if listed:
            yield "Discuss", f"<ul>{_points(listed[:TO_DISCUSS])}</ul>"
        if sentence := TO_LEAVE_WITH.search(text):
            with_you = f"<p>You leave with: {_line(leaves[0])}.</p>" if leaves and leaves[0] else ""
            yield "To keep", f'<p class="question">{_line(_capitalised(sentence[1]))}</p>{with_you}'


def _votes(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield question and options of each `predict_first` in the code of a cell."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "predict_first":
            question, options = map(ast.literal_eval, node.args[:2])
            yield question, list(options)


def _points(texts: list[str]) -> str:
    return "".join(f"<li>{_line(text).rstrip(';')}</li>" for text in texts)


def _capitalised(text: str) -> str:
    """Return a sentence with a capital letter, as it is printed alone on a slide."""
    return text[:1].upper() + text[1:]


def _line(text: str) -> str:
    """Return one line of Markdown as HTML: emphasis and code remain, links become their words."""
    text = escape(LINK.sub(r"\1", " ".join(text.split())), quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"(?<![\w*])\*(\w[^*]*[\w.?!])\*(?![\w*])", r"<em>\1</em>", text)


def _assembled_page(name: str, title: str, body: str, **more: Any) -> Page:
    """Return a page whose wide tables and formulas scroll in a box of their own."""
    body = re.sub(r'href="(?:\.\./|history/)?([\w-]+)\.ipynb', r'href="\1.html', body)  # all pages are in one folder
    wide = r'(?s)<table\b.*?</table>|<math\b[^>]*display="block".*?</math>'
    body = re.sub(wide, r'<div class="scroll">\g<0></div>', body)
    heads = [*re.finditer(r'(?s)<h[1-3][^>]*?\bid="([^"]*)"[^>]*>(.*?)</h[1-3]>', body)]
    ends = [*(head.start() for head in heads[1:]), len(body)]
    sections = tuple(
        (unescape(head[1]), _text(head[2]), _text(body[head.end() : end]))
        for head, end in zip(heads, ends, strict=True)
    )
    return Page(name, title, body, sections, **more)


def _text(body: str) -> str:
    """Return the text of HTML, without code of the package."""
    body = re.sub(r'(?s)<pre class="source".*?</pre>', "", body)
    body = re.sub(r"</?(?:m\w+|code|strong|em|a|span)\b[^>]*>", "", body)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def clean(body: str) -> str:
    """Return the HTML of `body` without scripts, event handlers and links to anything but pages and mail."""
    style = CSSSanitizer(allowed_css_properties=STYLES.split())
    return bleach.clean(
        UNSAFE_ELEMENTS.sub("", body),
        tags={*TEXT.split(), *MATHML.split()},
        attributes=_allowed,
        css_sanitizer=style,
        strip=True,
        protocols=["http", "https", "mailto", "data"],
    )


def _allowed(tag: str, name: str, value: str) -> bool:
    if name == "href":
        return tag == "a" and not value.strip().casefold().startswith("data:")
    if name == "src":
        return tag == "img" and PICTURE.fullmatch(value) is not None
    formula = tag in MATHML.split() and name in FORMULA.split()
    return formula or name in GLOBAL_ATTRIBUTES.split()


def _is_panel(output: nbformat.NotebookNode) -> bool:
    """Return True if a panel was shown: a picture beside a sentence; a lone chart is described in angle brackets."""
    data = output.get("data", {})
    picture = PICTURE.fullmatch(f"data:image/png;base64,{data.get('image/png', '?')}")
    return bool(picture) and not data.get("text/plain", "<").startswith("<")


def _panel_text(words: str) -> tuple[str, list[str], str]:
    """Return answer, badges and title of the chart from a panel's printed text."""
    first, _, rest = words.partition("\n")
    answer, badges = re.fullmatch(r"(.*?)((?: \[[^\]]*\])*) *", first).groups()  # type: ignore[union-attr]
    title = re.match(r"\w+: (.*) \(rows=", rest)
    return answer, re.findall(r"\[([^\]]*)\]", badges), title[1] if title else answer


def _with_cards(outputs: list[nbformat.NotebookNode]) -> Iterator[nbformat.NotebookNode]:
    """Yield outputs as a page shows them: panels as cards with their picture, pictures with alternative text."""
    card = ""
    for output in outputs:
        data = output.get("data", {})
        if _is_panel(output):
            answer, badges, title = _panel_text(data["text/plain"])
            quiet = f'<p class="ck-badges">{escape(" · ".join(badges))}</p>'
            card = card or f'<div class="ck-card"><p>{escape(answer)}</p>{quiet}</div>'
            picture = f'<img src="data:image/png;base64,{data["image/png"]}" alt="{escape(title)}">'
            place = card.find("<table") if "<table" in card else card.rindex("</div>")
            output = nbformat.v4.new_output("display_data", {"text/html": card[:place] + picture + card[place:]})
        elif "image/png" in data:
            words = data.get("text/plain", "")
            chart = re.match(r"<\w+ (['\"])(.*)\1 rows=", words)
            output["metadata"] = nbformat.from_dict({"image/png": {"alt": chart[2] if chart else words}})
        elif set(data) == {"text/html"} and data["text/html"].startswith('<div class="ck-card">'):
            card = data["text/html"].replace(SAVED_NOTE, "")
            continue
        if set(data) != {WIDGET_VIEW}:
            yield output
        card = ""


@cache
def reference() -> tuple[Page, ...]:
    """Return a page for each namespace of the package, from the docstrings of its public names.

    The first lists them.
    """
    intro = "<p>Public functions and their results, each with its arguments, units, source in print, and code.</p>"
    rooms = [_namespace_page(*room) for room in _namespaces()]
    return _assembled_page("reference", "Reference", f'<h1 id="reference">Reference</h1>{intro}'), *rooms


def _namespaces() -> Iterator[tuple[str, ModuleType]]:
    """Yield each namespace by the name under which a notebook reaches it."""
    package, formulas = import_module("cookbook"), import_module("cookbook.formulas")
    yield "cb", package
    for name in ("planning", "panels", "charts"):
        yield f"cb.{name}", getattr(package, name)
    for submodule in pkgutil.iter_modules(formulas.__path__):
        if not submodule.name.startswith("_"):
            module = import_module(f"{formulas.__name__}.{submodule.name}")
            is_public = getattr(package, submodule.name, None) is module
            yield f"cb.{submodule.name}" if is_public else module.__name__, module


def _namespace_page(prefix: str, module: ModuleType) -> Page:
    """Return public functions and classes of `module`, and the classes that its functions return."""
    own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
    public = [*getattr(module, "__all__", ()), *(name for name in own if not name.startswith("_"))]
    things = {name: inspect.unwrap(thing) for name in public if callable(thing := getattr(module, name))}
    for thing in [*things.values()]:
        returned = getattr(thing, "__annotations__", {}).get("return")
        result = vars(import_module(thing.__module__)).get(returned) if isinstance(returned, str) else returned
        if inspect.isclass(result) and result.__module__.startswith("cookbook."):
            things.setdefault(result.__name__, result)
    entries = "".join(_entry(prefix if name in public else "", name, thing) for name, thing in things.items())
    first, _, rest = inspect.getdoc(module).partition("\n")  # type: ignore[union-attr]
    body = f'<h1 id="{prefix}"><code>{prefix}</code></h1><p>{_inline(first)}</p>{_docstring(rest)}{entries}'
    name = f"reference-{prefix.replace('.', '-')}"
    return _assembled_page(name, prefix, body, line=first, names=tuple(things))


def _entry(prefix: str, name: str, thing: Any) -> str:
    """Return signature, docstring, location and code of one function or class; code without the docstring."""
    lines, start = inspect.getsourcelines(thing)
    node = ast.parse(dedent("".join(lines))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    if isinstance(node, ast.ClassDef):
        call, members = ", ".join(inspect.signature(thing).parameters), _members(node)
    else:
        call, members = ast.unparse(node.args), ""
    if node.body and ast.get_docstring(node):
        node.body = node.body[1:] or [ast.Pass()]
        below = node.body[0].lineno if hasattr(node.body[0], "lineno") else len(lines)
        skipped = next(at for at, line in enumerate(lines) if '"""' in line)
        lines = lines[:skipped] + lines[below - 1 :]
    file = Path(inspect.getfile(thing))
    where = f"{file.relative_to(HERE.parents[1]).as_posix()}, line {start}"
    full = f"{prefix}.{name}" if prefix else name
    return (
        f'<h2 id="{name}"><code>{full}</code></h2><pre class="source">{escape(f"{name}({call})")}</pre>'
        f"{_docstring(inspect.getdoc(thing) or '')}{members}<details><summary>Code: {where}</summary>"
        f'<pre class="source">{escape(dedent("".join(lines)))}</pre></details>'
    )


def _members(node: ast.ClassDef) -> str:
    """Return public methods and properties of a class with the first sentence of each."""
    public = [member for member in node.body if isinstance(member, ast.FunctionDef) and not member.name.startswith("_")]
    rows = [
        f"<dt><code>.{member.name}{'' if member.decorator_list else f'({ast.unparse(member.args)})'}</code></dt>"
        f"<dd>{_inline((ast.get_docstring(member) or '').partition(chr(10) * 2)[0])}</dd>"
        for member in public
    ]
    return f"<h3>Members</h3><dl>{''.join(rows)}</dl>" if rows else ""


def _docstring(text: str) -> str:
    """Return the sections of a numpy docstring as HTML."""
    first, *more = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.M)
    return _prose(first) + "".join(
        f"<h3>{title}</h3>{_listed(section)}" for title, section in zip(more[::2], more[1::2], strict=True)
    )


def _listed(section: str) -> str:
    """Return names with the indented text below each, or plain prose."""
    first, *more = re.split(r"^(\S.*)\n(?=    \S)", section, flags=re.M)
    rows = [
        f"<dt><code>{escape(name)}</code>{sep}{_inline(kind)}</dt><dd>{_prose(dedent(text))}</dd>"
        for (name, sep, kind), text in zip((head.partition(" : ") for head in more[::2]), more[1::2], strict=True)
    ]
    return _prose(first) + (f"<dl>{''.join(rows)}</dl>" if rows else "")


def _prose(text: str) -> str:
    """Return paragraphs, lists, formulas and examples of a docstring."""
    done = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith(".. math::"):
            formula = " ".join(block.removeprefix(".. math::").split())
            done.append(convert(formula.replace(r"\arg", r"\operatorname{arg}"), display="block"))
        elif block.startswith(">>>"):
            done.append(f'<pre class="highlight">{escape(block)}</pre>')
        elif block.startswith("- "):
            items = "".join(f"<li>{_inline(item)}</li>" for item in block[2:].split("\n- "))
            done.append(f"<ul>{items}</ul>")
        elif block:
            done.append(f"<p>{_inline(block)}</p>")
    return "".join(done)


def _inline(text: str) -> str:
    """Return code, formulas and emphasis within a line."""
    text = re.sub(r":math:`([^`]+)`", lambda match: convert(match[1]), escape(text, quote=False))
    text = re.sub(r"``(.+?)``|`([^`]+)`", lambda match: f"<code>{match[1] or match[2]}</code>", text)
    return re.sub(r"(?<![\w*])\*(\w[^*\n]*\w)\*(?![\w*])", r"<em>\1</em>", text)
