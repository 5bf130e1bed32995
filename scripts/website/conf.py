"""Settings of Sphinx for the documentation site (``make docs``)."""

import eqrm

project = "eqrm"
author = "The eqrm developers"
copyright = author
version = release = eqrm.__version__
language = "en"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
nitpicky = True
smartquotes = False  # would make one dash of the two of an option
show_warning_types = True

myst_heading_anchors = 5  # as GitHub makes them, so that page.md#heading works in both
myst_links_external_new_tab = False

html_theme = "pydata_sphinx_theme"
html_title = f"eqrm {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"gallery": [], "faq": []}  # sections of one page
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
pygments_style = "tango"
