"""Pages that need nothing else: no scripts, no fonts, no images from anywhere."""

from __future__ import annotations

from typing import Any

import jinja2

from hedgerow.report import words


def rendered(package: str, template: str = "page.html.j2", **given: Any) -> str:
    """A template of a package, in the style that all pages share (`base.html.j2`)."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(each, "") for each in (package, __package__)]),
    )
    environment.filters.update(
        seconds=words.seconds,
        percent=words.percent,
        money=words.money,
        change=words.change,
        pnn=words.pnn,
        when=words.when,
    )
    return environment.get_template(template).render(given)
