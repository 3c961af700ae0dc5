"""How a bug of ours is logged: what failed and where, never the words of the exception, in which content may stand."""

import logging
import traceback


def log_failure(logger: logging.Logger, what: str, error: BaseException) -> None:
    """One line with the kind of the exception; at level debug also the frames it came through."""
    logger.error("%s failed with %s", what, type(error).__name__)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("at\n%s", "".join(traceback.format_tb(error.__traceback__)))
