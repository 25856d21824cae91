"""What each section of a configuration allows, and their combination does not."""

from __future__ import annotations

from hpcdl.config import Config
from hpcdl.errors import UserError


def check(config: Config) -> None:
    """Refuse what each section allows and their combination does not.

    Raises:
        UserError: the message names the keys and their values.
    """
    if config.consistency.name != "synchronous":
        if config.compression.codec != "none":
            raise UserError(
                f"compression.codec={config.compression.codec!r}: gradients are compressed with "
                f"consistency.name='synchronous' only, not {config.consistency.name!r}"
            )
        if config.grid.height != 1:
            raise UserError(
                f"grid.height={config.grid.height}: with consistency.name="
                f"{config.consistency.name!r} each rank trains by itself, on whole images; needs 1"
            )
