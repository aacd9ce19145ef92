"""Pages that need nothing else: no scripts, no fonts, no images from anywhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jinja2

from hedgerow.report import words


def rendered(package: str, **given: Any) -> str:
    """The template `page.html.j2` of a package, in the style that all pages share."""
    sources = {"base": __package__, "page": package}
    texts = {name: files(where).joinpath(f"{name}.html.j2").read_text("utf-8") for name, where in sources.items()}
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.DictLoader(texts),
    )
    environment.filters.update(
        seconds=words.seconds, percent=words.percent, money=words.money, change=words.change, pnn=words.pnn
    )
    return environment.get_template("page").render(given)
