"""Options that commands share: `--listen` and `--json-ready`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hedgerow.config import Address

JsonReady = Annotated[
    bool,
    typer.Option(
        "--json-ready",
        help='Print one line on stdout once connections are accepted: {"ready": true, "url": …, "pid": …}.',
    ),
]


def address(text: str) -> Address:
    """`--listen` as the configuration reads `server.listen`. Raises `BadParameter`."""
    from pydantic import TypeAdapter, ValidationError

    from hedgerow.config import Address
    from hedgerow.config.network import ADDRESS

    try:
        return TypeAdapter[Address](Annotated[Address, ADDRESS]).validate_python(text)
    except ValidationError as error:
        raise typer.BadParameter(f"{text!r}: {error.errors()[0]['msg']}", param_hint="--listen") from None
