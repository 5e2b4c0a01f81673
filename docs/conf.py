"""Configuration of the documentation: `make site` builds it from the executed notebooks, the guides and docstrings."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_ext")]

import cookbook  # noqa: E402

project = "Deep Learning Cookbook"
copyright = "The Deep Learning Cookbook authors. Code under the MIT licence, text and data under CC BY 4.0"
release = version = cookbook.__version__
language = "en-GB"
smartquotes = False
default_role = "py:obj"
extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "mathml",
    "recipes",
    "reference",
]

# The sources are the repository itself, so that its links lead to the same pages here and there.
root_doc = "index"
include_patterns = ["index.md", "README.md", "C*.md", "data/README.md", "docs/**", "notebooks/**"]
exclude_patterns = [".*", "**/.ipynb_checkpoints", "build", "cookbook", "docs/_*", "tests"]

# Notebooks are shown as they were stored and never run; `_ext/recipes.py` prepares their cards and folds.
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_ipywidgets_js = {}
myst_enable_extensions = ["colon_fence", "dollarmath", "substitution"]
myst_dmath_allow_digits = False  # two prices in a line are no formula
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # docstrings state them, with shapes and units
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["cookbook.css"]
html_js_files = ["disk.js"]
templates_path = [str(Path(__file__).parent / "_templates")]
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = html_use_index = html_domain_indices = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": project},
    "navbar_align": "left",
    "search_bar_text": "Search",
    "show_toc_level": 2,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
    "primary_sidebar_end": [],
    "footer_start": ["copyright"],
    "footer_end": [],
}
